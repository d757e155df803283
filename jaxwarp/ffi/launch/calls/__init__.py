"""From what a call is given to a launch: arguments, structs taken apart, roles, dimensions."""
