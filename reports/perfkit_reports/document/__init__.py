"""The content of reports, independent of subject and format: `document` > `blocks` > `tables` > `cells`."""
