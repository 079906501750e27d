"""perfkit for programs that act on their own: a server of the Model Context Protocol, and instructions."""
