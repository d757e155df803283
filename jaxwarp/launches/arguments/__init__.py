"""The steps from the values passed to a call to a launch: arguments, structs taken apart, roles, dimensions."""
