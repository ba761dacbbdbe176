"""Models larger than one process, and jobs that outlive one: tensor parallel, pipelines, elastic membership."""
