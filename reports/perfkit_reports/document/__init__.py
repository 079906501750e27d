"""The content of a report, whatever it is about and whatever shows it: `document` > `blocks` > `tables` > `cells`."""
