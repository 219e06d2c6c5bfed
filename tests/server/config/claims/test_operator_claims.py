from jetstream_server.config.claims.operator_claims import OperatorClaims


def test_whose_signature_counts(credentials):
    signing = credentials.OPERATOR_SIGNING.public

    def trusted(**nats):
        key = credentials.OPERATOR
        token = credentials.token("operator", key, key.public, "o", nats)
        return OperatorClaims.read(token).trusted_keys

    own = credentials.OPERATOR.public
    assert trusted() == (own,)
    assert trusted(signing_keys=[signing]) == (own, signing)
    assert trusted(signing_keys=[signing], strict_signing_key_usage=True) == (signing,)
