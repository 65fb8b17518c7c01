"""Any request for a training job -> another form of it."""
