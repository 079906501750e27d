"""The structs of all results, a file a subject: plain data, which `report.json` holds as it is."""
