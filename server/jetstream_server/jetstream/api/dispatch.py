"""The JSON API as one receiver on `$JS.API.>`.

Subjects that no route matches are met with silence, as the genuine server does (reference 3.1).
"""
