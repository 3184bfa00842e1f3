//! The texts of the three requests: what the library sends, as a test sees to.

pub(crate) const TABLE: &str = "leases";

pub(crate) const ACQUIRE: &str = "SET #holder = :holder, #granted_to = :holder, #lease_id = :lease_id, #ttl_ms = :ttl_ms, \
    #metadata = :metadata, #acquired_at = :now, #expires_at = :expires_at, #sweep_after = \
    :sweep_after, #fencing_token = if_not_exists(#fencing_token, :seed) + :step, #version = \
    if_not_exists(#version, :now) + :one, #line = if_not_exists(#line, :empty), #request = \
    :request, #past_request_1 = if_not_exists(#request, :null), #past_request_2 = \
    if_not_exists(#past_request_1, :null), #past_request_3 = if_not_exists(#past_request_2, \
    :null), #previous_holder = if_not_exists(#granted_to, :null), #previous_fencing_token = \
    if_not_exists(#fencing_token, :zero), #previous_last_fencing_token = \
    if_not_exists(#last_fencing_token, :null), #previous_ended = if_not_exists(#ended, \
    :expired) REMOVE #ended, #extended_at, #purge_at, #last_fencing_token, #claim, \
    #claim_id, #claim_until, #claim_tries, #heir, #request_keys";

pub(crate) const ACQUIRE_IF: &str = "attribute_not_exists(#pk) OR (((attribute_not_exists(#holder) AND \
    attribute_not_exists(#lease_id) AND #ended IN (:released, :expired, :forced) AND \
    (attribute_not_exists(#last_fencing_token) OR (attribute_type(#last_fencing_token, \
    :number) AND #last_fencing_token BETWEEN :one AND :most)) AND NOT attribute_type(#claim, \
    :binary)) OR (#holder = #granted_to AND attribute_not_exists(#ended) AND \
    attribute_not_exists(#last_fencing_token) AND attribute_type(#lease_id, :text) AND \
    attribute_type(#metadata, :map) AND attribute_type(#ttl_ms, :number) AND #ttl_ms BETWEEN \
    :one AND :longest AND attribute_type(#acquired_at, :number) AND #acquired_at BETWEEN \
    :one AND :forever AND attribute_type(#expires_at, :number) AND #expires_at BETWEEN :one \
    AND :forever AND #expires_at <= :over)) AND attribute_not_exists(#line[0]) AND \
    attribute_type(#fencing_token, :number) AND #fencing_token BETWEEN :one AND :most AND \
    attribute_type(#version, :number) AND #version BETWEEN :one AND :most AND \
    attribute_type(#request, :binary) AND attribute_type(#granted_to, :text) AND \
    attribute_type(#line, :list) AND \
    attribute_not_exists(#frozen) AND #request <> :request AND #past_request_1 <> :request \
    AND #past_request_2 <> :request AND #past_request_3 <> :request)";

pub(crate) const ACQUIRE_NAMES: [(&str, &str); 31] = [
    ("#acquired_at", "acquired_at"),
    ("#claim", "claim"),
    ("#claim_id", "claim_id"),
    ("#claim_tries", "claim_tries"),
    ("#claim_until", "claim_until"),
    ("#ended", "ended"),
    ("#expires_at", "expires_at"),
    ("#extended_at", "extended_at"),
    ("#fencing_token", "fencing_token"),
    ("#frozen", "frozen"),
    ("#granted_to", "granted_to"),
    ("#heir", "heir"),
    ("#holder", "holder"),
    ("#last_fencing_token", "last_fencing_token"),
    ("#lease_id", "lease_id"),
    ("#line", "line"),
    ("#metadata", "metadata"),
    ("#past_request_1", "past_request_1"),
    ("#past_request_2", "past_request_2"),
    ("#past_request_3", "past_request_3"),
    ("#pk", "pk"),
    ("#previous_ended", "previous_ended"),
    ("#previous_fencing_token", "previous_fencing_token"),
    ("#previous_holder", "previous_holder"),
    (
        "#previous_last_fencing_token",
        "previous_last_fencing_token",
    ),
    ("#purge_at", "purge_at"),
    ("#request", "request"),
    ("#request_keys", "request_keys"),
    ("#sweep_after", "sweep_after"),
    ("#ttl_ms", "ttl_ms"),
    ("#version", "version"),
];

pub(crate) const EXTEND: &str = "SET #expires_at = :expires_at, #ttl_ms = :ttl_ms, #extended_at = :now, #version = \
    #version + :one";

pub(crate) const EXTEND_IF: &str = "#holder = #granted_to AND attribute_not_exists(#ended) AND \
    attribute_not_exists(#last_fencing_token) AND attribute_type(#lease_id, :text) AND \
    attribute_type(#metadata, :map) AND attribute_type(#ttl_ms, :number) AND #ttl_ms BETWEEN \
    :one AND :longest AND attribute_type(#acquired_at, :number) AND #acquired_at BETWEEN \
    :one AND :forever AND attribute_type(#expires_at, :number) AND #expires_at BETWEEN :one \
    AND :forever AND attribute_type(#fencing_token, :number) AND #fencing_token BETWEEN :one \
    AND :most AND attribute_type(#version, :number) AND #version BETWEEN :one AND :most AND \
    attribute_type(#request, :binary) AND attribute_type(#granted_to, :text) AND \
    attribute_type(#line, :list) AND #lease_id = :lease_id \
    AND #fencing_token = :fencing_token AND #expires_at <= :expires_at AND (#expires_at > \
    :now OR (attribute_not_exists(#frozen) AND attribute_not_exists(#line[0])))";

pub(crate) const EXTEND_NAMES: [(&str, &str); 15] = [
    ("#acquired_at", "acquired_at"),
    ("#ended", "ended"),
    ("#expires_at", "expires_at"),
    ("#extended_at", "extended_at"),
    ("#fencing_token", "fencing_token"),
    ("#frozen", "frozen"),
    ("#granted_to", "granted_to"),
    ("#holder", "holder"),
    ("#last_fencing_token", "last_fencing_token"),
    ("#lease_id", "lease_id"),
    ("#line", "line"),
    ("#metadata", "metadata"),
    ("#request", "request"),
    ("#ttl_ms", "ttl_ms"),
    ("#version", "version"),
];

pub(crate) const RELEASE: &str = "SET #ended = :ended, #purge_at = if_not_exists(#purge_at, :purge_at), #version = \
    #version + :one, #heir = if_not_exists(#line[0], :null) REMOVE #holder, #lease_id, \
    #ttl_ms, #acquired_at, #extended_at, #expires_at, #sweep_after, #metadata, \
    #last_fencing_token, #claim, #claim_id, #claim_until, #claim_tries";

pub(crate) const RELEASE_IF: &str = "#holder = #granted_to AND attribute_not_exists(#ended) AND \
    attribute_not_exists(#last_fencing_token) AND attribute_type(#lease_id, :text) AND \
    attribute_type(#metadata, :map) AND attribute_type(#ttl_ms, :number) AND #ttl_ms BETWEEN \
    :one AND :longest AND attribute_type(#acquired_at, :number) AND #acquired_at BETWEEN \
    :one AND :forever AND attribute_type(#expires_at, :number) AND #expires_at BETWEEN :one \
    AND :forever AND #lease_id = :lease_id AND #fencing_token = :fencing_token AND \
    attribute_type(#fencing_token, :number) AND #fencing_token BETWEEN :one AND :most AND \
    attribute_type(#version, :number) AND #version BETWEEN :one AND :most AND \
    attribute_type(#request, :binary) AND attribute_type(#granted_to, :text) AND \
    attribute_type(#line, :list)";

pub(crate) const RELEASE_NAMES: [(&str, &str); 21] = [
    ("#acquired_at", "acquired_at"),
    ("#claim", "claim"),
    ("#claim_id", "claim_id"),
    ("#claim_tries", "claim_tries"),
    ("#claim_until", "claim_until"),
    ("#ended", "ended"),
    ("#expires_at", "expires_at"),
    ("#extended_at", "extended_at"),
    ("#fencing_token", "fencing_token"),
    ("#granted_to", "granted_to"),
    ("#heir", "heir"),
    ("#holder", "holder"),
    ("#last_fencing_token", "last_fencing_token"),
    ("#lease_id", "lease_id"),
    ("#line", "line"),
    ("#metadata", "metadata"),
    ("#purge_at", "purge_at"),
    ("#request", "request"),
    ("#sweep_after", "sweep_after"),
    ("#ttl_ms", "ttl_ms"),
    ("#version", "version"),
];
