"""Which photo does a dialogue lead to? (PhotoChat, Zang et al., 2021)"""
