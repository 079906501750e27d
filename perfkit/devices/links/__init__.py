"""Speed of messages between ranks of one machine: measured, stored per machine, looked up by collective and size."""
