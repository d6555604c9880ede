"""The base of every room: types, errors, losses, random numbers, files, names, devices and the console."""
