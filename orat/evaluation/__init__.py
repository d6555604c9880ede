"""Networks to accuracies under attack that can be trusted."""
