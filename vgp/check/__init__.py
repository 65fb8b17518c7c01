"""Any document -> findings: what Vertex AI would refuse, found before it is asked."""
