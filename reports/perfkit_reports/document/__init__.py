"""What a report says, whatever it is about and whatever shows it: `document` > `blocks` > `tables` > `cells`."""
