"""The ground that every room stands on: types, errors, losses, random numbers, files, devices, the console."""
