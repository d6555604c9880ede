"""Networks by name, and the forms of a network that attacks search on."""
