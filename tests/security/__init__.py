"""Attacks on the product, and what holds them off.

| Attack | Tests |
| --- | --- |
| routes and consumers without the right | `test_route_walk`, `test_rights` |
| agents and credentials of others | `test_agent_sharing`, `test_credentials`, `tests/browser/test_two_users` |
| injected text that sends data out | `taint` |
| senders without a user | `test_open_channels` |
| the python tool and the embedded Valkey | `test_python_isolation`, `test_embedded_valkey` |
| deleted and changed evidence | `test_audit_chain` |
| files of the data folder, packages, environment | `test_data_at_rest`, `test_supply_chain` |
| slow and half requests | `test_server_limits` |
| credentials in URLs | `test_query_credentials`, `test_signed_addresses` |
| credentials that may do too much | `test_api_key_scopes` |
| guessed passwords, second factors, sessions | `test_login_throttle`, `test_people_*` |
| a session opened in another user's name | `test_session_ownership` |
| repeated, replayed, late and concurrent decisions | `test_decision_races` |
| DNS rebinding | `test_dns_rebinding`; all other forms of URLs: `tests/unit/tools_app/network/test_ssrf_guard` |
| hostile files, frames, floods, forged log lines | `test_running_installation` |
| hostile schemas | `tests/unit/tools_app/test_schema` |
| hostile MCP servers | `tests/integration/tools_app/mcp_client/test_connection` |
| budgets spent in parallel | `tests/integration/agents_app/costs/test_budgets` |
| hostile text on pages | `tests/browser/test_hostile_text`, `integration/audit_app/admin_base/test_hostile_text` |
"""
