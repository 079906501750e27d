"""Many traces of one job: analysed side by side, put in relation through their collectives."""
