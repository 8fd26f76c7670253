"""Parts of `ctxr revise-labels`: mining, judging, rounds of judgments, audits."""
