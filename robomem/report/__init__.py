"""The report: one self-contained HTML page of training runs, their evaluations and their audits."""
