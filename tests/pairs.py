"""The features of docs/guarantees.md, each with each other: the test that has both, or why they cannot meet.

A value is a test (`path::name`, the path from tests/), or a sentence that begins with "cannot meet:" or "open:".
tests/unit/test_pairs.py keeps the table whole.
"""

FEATURES = {
    "sinks": "several sinks in a relay",
    "once": "`delivery: exactly_once`",
    "rules": "`routes`: several messages of a record, dropped records, topics by a condition",
    "letters": "the policy `dead_letter`",
    "block_key": "`refusals.block_key`: a key waits behind its dead letter",
    "pause": "`walrelay pause` and `resume`",
    "limits": "the limit of a pause, at which it ends or gives up the slot",
    "replay": "`walrelay replay`, and `walrelay dlq replay`",
    "backfill": "`walrelay init --backfill`",
    "recover": "`walrelay recover`",
    "cleanup": "`retention`, and `walrelay cleanup`",
    "marks": "`outbox.mark_published`",
    "spread": "several instances: one takes over what another led",
    "databases": "`databases`: a relay for each database that a query finds",
    "tenants": "a column of the tenant, in topics and filters; or a database for each tenant",
    "schemas": "payloads that are encoded by a schema of a registry",
    "envelopes": "CloudEvents, MassTransit, Spring",
    "debezium": "Debezium's Outbox Event Router",
    "failover": "PostgreSQL fails over to a standby that has the slot",
}

_AUDIT = "acceptance/test_audit.py"
_DESTINATIONS = "integration/relaying/test_recover_destinations.py"
_LETTERS = "acceptance/test_dead_letters.py"
_LOCKS = "acceptance/test_locks.py"
_PAIRS = "integration/relaying/test_pairs.py"
_PAIRS_INSTALLED = "acceptance/test_pairs.py"
_PAUSE = "acceptance/test_pause.py"
_SEVERAL = "acceptance/test_several_sinks.py"

_ALL_APART = f"{_PAIRS_INSTALLED}::test_databases_of_several_instances_have_pauses_letters_marks_and_slots_of_their_own"
_FAILED_OVER = "acceptance/test_failover.py::test_a_pause_marks_and_the_clean_up_survive_a_failover"
_FORM = f"{_PAIRS}::test_what_publishes_from_the_table_gives_the_form_of_the_stream"
_GIVEN_UP = f"{_PAIRS_INSTALLED}::test_a_slot_given_up_at_the_limit_of_a_pause_keeps_letters_blocks_and_marks"
_PAUSED_BEFORE = f"{_PAIRS_INSTALLED}::test_a_pause_between_a_refusal_and_its_replay_costs_no_order"
_ROUTED = f"{_PAIRS}::test_a_key_of_debeziums_router_waits_and_rows_without_a_time_are_kept"
_SINKS_OWN = f"{_PAIRS}::test_several_sinks_each_have_their_tenants_schemas_and_envelopes"

_BY_ROWS = "cannot meet: it goes by rows and slots, and never by what a message looks like"
_OF_DEFAULTS = "cannot meet: the relay of a found database has the settings of the defaults, as any other relay"
_OF_RECORD = (
    "cannot meet: a message is made of its record and the settings alone, whoever leads and whatever server sent it"
)
_NO_MESSAGE = "cannot meet: nothing is routed in a pause, and its limit is about the WAL of the slot"
_ENCODED = (
    "cannot meet: a payload and a schema of the registry give the bytes, whoever leads and whatever server sent it"
)
_REPLACED = (
    "cannot meet: refused beside Debezium's options,"
    " unit/test_config_debezium.py::test_what_the_options_replace_is_refused_beside_them"
)
_REFUSED_SINKS = "cannot meet: refused, unit/test_config_sinks.py::test_what_cannot_be_meant_is_refused_with_its_line"

PAIRS = {
    ("sinks", "once"): _REFUSED_SINKS,
    ("sinks", "rules"): f"{_SEVERAL}::test_rules_choose_among_sinks_and_the_commands_know_their_addresses",
    ("sinks", "letters"): f"{_SEVERAL}::test_a_refusal_of_one_sink_is_its_dead_letter_and_is_replayed_to_it_alone",
    ("sinks", "block_key"): f"{_PAIRS}::test_a_key_waits_at_the_sink_that_refused_it_alone",
    ("sinks", "pause"): f"{_PAIRS}::test_a_pause_while_one_sink_says_nothing_loses_and_reorders_nothing",
    ("sinks", "limits"): "cannot meet: a pause has closed every sink, and its limit is about the WAL of the slot",
    ("sinks", "replay"): f"{_SEVERAL}::test_rules_choose_among_sinks_and_the_commands_know_their_addresses",
    ("sinks", "backfill"): f"{_PAIRS}::test_a_backfill_gives_every_sink_its_rows_but_for_their_dead_letters",
    ("sinks", "recover"): f"{_PAIRS}::test_a_recovery_gives_each_sink_the_messages_that_it_lacks",
    (
        "sinks",
        "cleanup",
    ): f"{_PAIRS}::test_a_clean_up_and_a_recovery_leave_a_key_behind_the_letter_of_a_row_that_is_gone",
    (
        "sinks",
        "marks",
    ): f"{_PAIRS}::test_a_row_is_marked_once_every_sink_has_it_and_every_letter_of_its_key_was_replayed",
    ("sinks", "spread"): f"{_PAIRS}::test_an_instance_takes_over_while_one_sink_is_behind_the_other",
    ("sinks", "databases"): _OF_DEFAULTS,
    ("sinks", "tenants"): _SINKS_OWN,
    ("sinks", "schemas"): _SINKS_OWN,
    ("sinks", "envelopes"): _SINKS_OWN,
    ("sinks", "debezium"): _REFUSED_SINKS,
    ("sinks", "failover"): "open: PostgreSQL fails over while one of the sinks is behind the other",
    ("once", "rules"): "acceptance/test_side_by_side.py"
    "::test_two_relays_of_a_process_lose_and_reorder_nothing_when_it_or_postgres_dies",
    (
        "once",
        "letters",
    ): f"{_LETTERS}::test_in_exactly_once_mode_a_poison_message_and_its_dead_letter_are_there_once_each",
    ("once", "block_key"): "integration/relaying/test_changed_settings.py"
    "::test_exactly_once_leaves_a_letter_until_the_relay_has_passed_it",
    ("once", "pause"): f"{_PAUSE}::test_a_pause_under_load_loses_and_repeats_nothing",
    ("once", "limits"): _GIVEN_UP,
    ("once", "replay"): "acceptance/test_replay.py::test_a_replay_runs_beside_a_relay_that_publishes_exactly_once",
    ("once", "backfill"): "acceptance/test_backfill.py"
    "::test_init_backfill_and_run_under_load_have_no_gap_and_no_repetition",
    ("once", "recover"): "acceptance/test_own_position.py"
    "::test_a_lost_slot_is_recovered_from_the_position_that_the_relay_keeps",
    ("once", "cleanup"): "acceptance/test_versions.py"
    "::test_every_supported_version_is_relayed_exactly_once_and_cleaned_up",
    ("once", "marks"): _PAUSED_BEFORE,
    ("once", "spread"): "acceptance/test_spread.py::test_each_instance_leads_its_share_whoever_comes_or_goes",
    ("once", "databases"): _ALL_APART,
    ("once", "tenants"): f"{_LETTERS}::test_dead_letters_are_found_by_their_tenant_although_routing_does_not_need_it",
    ("once", "schemas"): "acceptance/test_schemas.py::test_a_registry_that_is_away_is_waited_for_and_nothing_overtakes",
    ("once", "envelopes"): _OF_RECORD,
    ("once", "debezium"): "acceptance/test_debezium.py"
    "::test_a_column_places_a_row_in_its_partition_and_one_that_is_not_there_is_refused",
    ("once", "failover"): "acceptance/test_failover.py"
    "::test_a_standby_takes_over_and_nothing_was_published_that_it_does_not_have",
    ("rules", "letters"): "acceptance/test_routing.py"
    "::test_a_dead_letter_is_replayed_as_all_that_the_rules_make_of_it_now",
    ("rules", "block_key"): "integration/dead_letters/test_settings_between_lives.py"
    "::test_every_destination_gets_each_message_once_whatever_the_settings_become",
    ("rules", "pause"): _NO_MESSAGE,
    ("rules", "limits"): _NO_MESSAGE,
    ("rules", "replay"): "integration/relaying/test_killed_commands.py"
    "::test_a_replay_killed_at_any_step_publishes_what_is_due_and_no_more",
    ("rules", "backfill"): "integration/relaying/test_killed_commands.py"
    "::test_a_recovery_or_backfill_killed_at_any_step_publishes_what_is_due_and_no_more",
    ("rules", "recover"): "acceptance/test_recover.py"
    "::test_a_relay_and_its_recovery_that_are_killed_leave_no_topic_without_an_event",
    ("rules", "cleanup"): "integration/relaying/test_push_down.py"
    "::test_what_the_server_withholds_is_cleaned_up_like_what_the_relay_drops",
    ("rules", "marks"): f"{_PAIRS}::test_marks_follow_a_backfill_rules_and_the_clean_up",
    (
        "rules",
        "spread",
    ): "cannot meet: the rules are those of the instance that leads; the next one's are those of another"
    " life, integration/relaying/test_changed_settings.py"
    "::test_other_rules_after_a_crash_leave_every_destination_its_message",
    ("rules", "databases"): _OF_DEFAULTS,
    ("rules", "tenants"): f"{_LETTERS}::test_a_row_that_no_rule_routes_is_set_aside_and_replayed_by_corrected_rules",
    ("rules", "schemas"): "acceptance/test_schemas.py::test_rows_are_encoded_and_what_does_not_suit_is_a_dead_letter",
    ("rules", "envelopes"): "acceptance/test_envelopes.py::test_each_consumer_reads_the_form_that_it_knows",
    ("rules", "debezium"): _REPLACED,
    ("rules", "failover"): _OF_RECORD,
    ("letters", "block_key"): f"{_LETTERS}"
    "::test_later_messages_of_a_key_wait_behind_its_dead_letter_and_follow_it_in_order",
    ("letters", "pause"): _PAUSED_BEFORE,
    ("letters", "limits"): _GIVEN_UP,
    ("letters", "replay"): "acceptance/test_replay.py::test_dead_letters_are_left_to_their_own_replay",
    ("letters", "backfill"): f"{_DESTINATIONS}::test_a_backfill_leaves_out_the_dead_letters_of_an_earlier_slot",
    ("letters", "recover"): f"{_DESTINATIONS}::test_a_dead_letter_is_left_out_and_its_siblings_are_published",
    ("letters", "cleanup"): f"{_PAIRS}"
    "::test_a_clean_up_and_a_recovery_leave_a_key_behind_the_letter_of_a_row_that_is_gone",
    ("letters", "marks"): "acceptance/test_mark_published.py::test_what_is_not_published_is_not_marked",
    ("letters", "spread"): _ALL_APART,
    ("letters", "databases"): _ALL_APART,
    (
        "letters",
        "tenants",
    ): f"{_LETTERS}::test_dead_letters_are_found_by_their_tenant_although_routing_does_not_need_it",
    ("letters", "schemas"): "acceptance/test_schemas.py::test_rows_are_encoded_and_what_does_not_suit_is_a_dead_letter",
    ("letters", "envelopes"): "acceptance/test_envelopes.py"
    "::test_a_row_that_does_not_suit_is_a_dead_letter_that_says_why",
    ("letters", "debezium"): "acceptance/test_debezium.py"
    "::test_a_column_places_a_row_in_its_partition_and_one_that_is_not_there_is_refused",
    ("letters", "failover"): "acceptance/test_failover.py"
    "::test_a_dead_letter_survives_a_failover_that_its_record_survives",
    ("block_key", "pause"): _PAUSED_BEFORE,
    ("block_key", "limits"): _GIVEN_UP,
    ("block_key", "replay"): "integration/dead_letters/test_dead_letters.py"
    "::test_the_relay_does_not_pass_a_key_whose_letters_are_being_replayed",
    ("block_key", "backfill"): f"{_DESTINATIONS}::test_rows_behind_a_dead_letter_of_their_key_are_blocked_behind_it",
    ("block_key", "recover"): "acceptance/test_recover.py"
    "::test_no_event_of_a_blocked_key_passes_its_dead_letter_by_a_recovery",
    ("block_key", "cleanup"): f"{_PAIRS}"
    "::test_a_clean_up_and_a_recovery_leave_a_key_behind_the_letter_of_a_row_that_is_gone",
    ("block_key", "marks"): f"{_PAIRS}::test_marks_follow_a_recovery_and_its_blocked_rows",
    ("block_key", "spread"): _ALL_APART,
    ("block_key", "databases"): _ALL_APART,
    ("block_key", "tenants"): f"{_PAIRS}::test_a_blocked_key_of_one_tenant_holds_up_no_other_tenant",
    ("block_key", "schemas"): "cannot meet: a payload that does not suit becomes no message, and nothing waits for a"
    " record without one; a key waits by its topic and key, which no schema changes",
    ("block_key", "envelopes"): "cannot meet: a record that does not suit becomes no message, and nothing waits for a"
    " record without one; a key waits by its topic and key, which no envelope changes",
    ("block_key", "debezium"): _ROUTED,
    ("block_key", "failover"): "simulation/test_setting_aside.py"
    "::test_a_failover_at_any_step_loses_no_dead_letter_that_the_slot_is_past",
    ("pause", "limits"): f"{_PAUSE}::test_at_its_limit_a_pause_ends",
    ("pause", "replay"): _PAUSED_BEFORE,
    ("pause", "backfill"): "cannot meet: a pause needs the slot that a backfill makes, and a backfill is refused where"
    " it is, integration/relaying/test_backfill.py::test_a_slot_that_is_there_is_not_backfilled",
    ("pause", "recover"): f"{_PAUSE}::test_at_its_limit_a_pause_gives_the_slot_up_for_a_recovery",
    ("pause", "cleanup"): f"{_PAIRS}::test_a_paused_relay_keeps_rows_that_it_did_not_publish_from_the_clean_up",
    ("pause", "marks"): _FAILED_OVER,
    ("pause", "spread"): f"{_PAUSE}::test_a_pause_outlives_the_process_and_a_takeover",
    ("pause", "databases"): _ALL_APART,
    (
        "pause",
        "tenants",
    ): "cannot meet: what is paused is a relay; of a database for each tenant it is pause and databases",
    ("pause", "schemas"): "acceptance/test_schemas.py::test_a_pause_is_obeyed_while_the_registry_is_away",
    ("pause", "envelopes"): _NO_MESSAGE,
    ("pause", "debezium"): _NO_MESSAGE,
    ("pause", "failover"): _FAILED_OVER,
    ("limits", "replay"): _GIVEN_UP,
    ("limits", "backfill"): _GIVEN_UP,
    ("limits", "recover"): f"{_PAUSE}::test_at_its_limit_a_pause_gives_the_slot_up_for_a_recovery",
    ("limits", "cleanup"): _GIVEN_UP,
    ("limits", "marks"): _GIVEN_UP,
    ("limits", "spread"): _GIVEN_UP,
    ("limits", "databases"): _ALL_APART,
    ("limits", "tenants"): _NO_MESSAGE,
    ("limits", "schemas"): _NO_MESSAGE,
    ("limits", "envelopes"): _NO_MESSAGE,
    ("limits", "debezium"): _NO_MESSAGE,
    ("limits", "failover"): "open: the limit is passed on the server that was promoted",
    ("replay", "backfill"): f"{_DESTINATIONS}::test_a_backfill_publishes_an_edited_message_as_its_replay_did",
    ("replay", "recover"): f"{_LOCKS}"
    "::test_beside_a_recovery_a_relay_stands_by_and_what_would_take_its_rows_or_its_slot_is_refused",
    ("replay", "cleanup"): f"{_LOCKS}::test_a_replay_publishes_what_a_clean_up_takes_meanwhile",
    ("replay", "marks"): f"{_PAIRS}"
    "::test_a_row_is_marked_once_every_sink_has_it_and_every_letter_of_its_key_was_replayed",
    ("replay", "spread"): "cannot meet: a replay takes no lead, and goes by what the slot has confirmed, whoever leads",
    ("replay", "databases"): _ALL_APART,
    ("replay", "tenants"): "acceptance/test_replay.py::test_rows_of_a_tenant_are_found_by_the_column_that_has_the_role",
    ("replay", "schemas"): _FORM,
    ("replay", "envelopes"): _FORM,
    ("replay", "debezium"): _FORM,
    ("replay", "failover"): _FAILED_OVER,
    ("backfill", "recover"): f"{_LOCKS}"
    "::test_beside_a_recovery_a_relay_stands_by_and_what_would_take_its_rows_or_its_slot_is_refused",
    ("backfill", "cleanup"): "integration/relaying/test_cleanup_before_the_slot.py"
    "::test_what_a_backfill_published_goes",
    ("backfill", "marks"): f"{_PAIRS}::test_marks_follow_a_backfill_rules_and_the_clean_up",
    ("backfill", "spread"): "cannot meet: no instance leads before the backfill is finished,"
    " integration/relaying/test_backfill.py"
    "::test_neither_init_nor_the_relay_takes_an_unfinished_backfill_for_a_finished_one",
    ("backfill", "databases"): _ALL_APART,
    ("backfill", "tenants"): _FORM,
    ("backfill", "schemas"): _FORM,
    ("backfill", "envelopes"): _FORM,
    ("backfill", "debezium"): _FORM,
    ("backfill", "failover"): "integration/relaying/test_backfill.py"
    "::test_a_slot_that_survives_a_failover_is_made_so_by_a_backfill_too",
    ("recover", "cleanup"): "integration/relaying/test_cleanup_before_the_slot.py"
    "::test_recover_after_a_clean_up_publishes_the_rest_and_a_clean_up_after_it_takes_all",
    ("recover", "marks"): f"{_PAIRS}::test_marks_follow_a_recovery_and_its_blocked_rows",
    ("recover", "spread"): f"{_LOCKS}"
    "::test_beside_a_recovery_a_relay_stands_by_and_what_would_take_its_rows_or_its_slot_is_refused",
    ("recover", "databases"): _ALL_APART,
    ("recover", "tenants"): _FORM,
    ("recover", "schemas"): _FORM,
    ("recover", "envelopes"): _FORM,
    ("recover", "debezium"): _FORM,
    ("recover", "failover"): "acceptance/test_recover.py"
    "::test_a_slot_that_the_promoted_standby_does_not_have_is_recovered_without_a_loss",
    ("cleanup", "marks"): f"{_PAIRS}::test_marks_follow_a_backfill_rules_and_the_clean_up",
    ("cleanup", "spread"): "acceptance/test_retention.py::test_a_standby_cleans_up_when_it_leads_and_not_before",
    ("cleanup", "databases"): _ALL_APART,
    ("cleanup", "tenants"): _BY_ROWS,
    ("cleanup", "schemas"): _BY_ROWS,
    ("cleanup", "envelopes"): _BY_ROWS,
    ("cleanup", "debezium"): _ROUTED,
    ("cleanup", "failover"): _FAILED_OVER,
    ("marks", "spread"): _ALL_APART,
    ("marks", "databases"): _ALL_APART,
    ("marks", "tenants"): _BY_ROWS,
    ("marks", "schemas"): _BY_ROWS,
    ("marks", "envelopes"): _BY_ROWS,
    ("marks", "debezium"): _ROUTED,
    ("marks", "failover"): _FAILED_OVER,
    ("spread", "databases"): "acceptance/test_databases.py"
    "::test_instances_share_the_databases_and_take_over_what_another_led",
    ("spread", "tenants"): _OF_RECORD,
    ("spread", "schemas"): _ENCODED,
    ("spread", "envelopes"): _OF_RECORD,
    ("spread", "debezium"): _OF_RECORD,
    ("spread", "failover"): "acceptance/test_rolling_restarts.py"
    "::test_rolling_restarts_while_postgres_fails_over_stop_no_instance_and_lose_nothing",
    ("databases", "tenants"): "acceptance/test_databases.py::test_databases_come_and_go_and_nothing_is_lost",
    ("databases", "schemas"): _OF_DEFAULTS,
    ("databases", "envelopes"): _OF_DEFAULTS,
    ("databases", "debezium"): _OF_DEFAULTS,
    ("databases", "failover"): "open: the server of the databases, or that of their catalog, fails over",
    ("tenants", "schemas"): _SINKS_OWN,
    ("tenants", "envelopes"): _SINKS_OWN,
    ("tenants", "debezium"): _REPLACED,
    ("tenants", "failover"): _OF_RECORD,
    ("schemas", "envelopes"): _SINKS_OWN,
    ("schemas", "debezium"): _REPLACED,
    ("schemas", "failover"): _ENCODED,
    ("envelopes", "debezium"): _REPLACED,
    ("envelopes", "failover"): _OF_RECORD,
    ("debezium", "failover"): _OF_RECORD,
}
