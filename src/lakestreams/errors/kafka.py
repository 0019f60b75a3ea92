"""Kafka's errors, LS3xx: brokers, topics, offsets, signing in."""

from __future__ import annotations

from lakestreams.errors.base import LakestreamsError


class BrokerUnreachable(LakestreamsError):
    """No broker answers at the configured address within the time limit.

    A listener of another protocol does not answer either. Examples are a listener for TLS or with sign-in while
    `security.protocol` is PLAINTEXT, or the other way round.
    """

    code = "LS301"
    name = "BROKER_UNREACHABLE"
    hint = "check bootstrap_servers, the network and security.protocol; a local broker: lakestreams local up"


class TopicMissing(LakestreamsError):
    """A topic of the pipeline does not exist on the broker."""

    code = "LS302"
    name = "TOPIC_MISSING"
    hint = (
        "create the topic, since a pipeline never does (on a laptop: lakestreams local topic NAME --partitions 2). Or correct "
        "its name in conf/sources.yml or in the outputs"
    )


class TopicRecreated(LakestreamsError):
    """A topic was deleted and created again. Its offsets now belong to other records than the ingested ones.

    The next run would silently skip new records: those at offsets that were already ingested from the old topic.
    """

    code = "LS303"
    name = "TOPIC_RECREATED"
    hint = "give the pipeline a new name to read the new topic, or restore the old topic"


class OffsetsExpired(LakestreamsError):
    """Records between the last ingested offset and the topic's first retained offset are gone."""

    code = "LS304"
    name = "OFFSETS_EXPIRED"
    hint = "to continue at the first retained record and note what was lost: run --accept-data-loss"


class TopicWriteFailed(LakestreamsError):
    """Not all results of a cycle could be written to a Kafka topic.

    The cycle is not finished. The next run writes all of its records again, with the same ids. Records that did arrive are
    then in the topic twice.
    """

    code = "LS305"
    name = "TOPIC_WRITE_FAILED"
    hint = "remove the cause and run again, which repeats the cycle; the log file has the whole trace"


class SignInFailed(LakestreamsError):
    """Kafka refuses the pipeline's sign-in, or Kafka's client cannot start with these options.

    The broker may refuse user, password, token or mechanism, or use another protocol at that address. Its certificate may
    not be trusted. Or a login module, a keystore or a truststore cannot be loaded. The message quotes Kafka's client. The
    fix names the options to check.
    """

    code = "LS306"
    name = "SIGN_IN_FAILED"
    hint = "check security.protocol and the options sasl.* and ssl.*: lakestreams explain kafka-options"


class RightsMissing(LakestreamsError):
    """Kafka accepts the sign-in, and its access control lists refuse what the pipeline does.

    A pipeline needs Describe and Read on each topic that it reads, and Describe and Write on each topic that it writes. It
    joins no consumer group. A topic without Describe can look as if it did not exist (LS302).
    """

    code = "LS307"
    name = "RIGHTS_MISSING"
    hint = (
        "allow the user Describe and Read on input topics, Describe and Write on output topics: "
        "kafka-acls --add --allow-principal User:NAME --operation Read --topic TOPIC"
    )


class RegistryUnreachable(LakestreamsError):
    """The schema registry gives no answer within the time limit, or only that it cannot answer now.

    Records are read by schemas that stand in the ledger, so a registry is asked only for what is new. Where it does not
    answer, the run ends before it has ingested any record that needs the schema; the next one goes on there. A question is
    put `max.retries` + 1 times, for at most `request.timeout.ms` each. After that the run asks nothing more.
    """

    code = "LS308"
    name = "REGISTRY_UNREACHABLE"
    hint = "check the registry's url and the network, then run again; locally: lakestreams local up --registry"


class RegistryRefused(LakestreamsError):
    """The schema registry answers, and does not do what it is asked for.

    It does not let the pipeline in, its certificate is not trusted, the address is not that of its REST interface, or a
    schema is not compatible with those that its subject has.
    """

    code = "LS309"
    name = "REGISTRY_REFUSED"
    hint = "the message has what the registry says; lakestreams explain pipelines tells how sources.yml names it"


class SchemaMissing(LakestreamsError):
    """The schema registry lacks a subject or a version that the pipeline needs, or what it answers is no schema.

    Of schemas that records name, only those records are refused.
    """

    code = "LS310"
    name = "SCHEMA_MISSING"
    hint = "register the schema, or correct subject and version"
