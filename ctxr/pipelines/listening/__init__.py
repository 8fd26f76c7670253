"""The parts of `ctxr listen`: what is asked, the endpoint, what replies say, the journal, and what they come to."""
