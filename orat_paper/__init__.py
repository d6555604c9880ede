"""The paper's tables, figures and theorems, as a plug-in of orat: `orat paper ...`."""
