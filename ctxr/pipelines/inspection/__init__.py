"""Looking at what there is: stats, audit, report, doctor."""
