"""What a training step takes, as figures that tests make assertions on: what `perfkit_check` in pytest is made of."""
