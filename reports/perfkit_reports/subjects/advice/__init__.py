"""The report on advice: which techniques to switch on."""
