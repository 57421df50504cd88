"""The rights over sessions, channels, feedback and users."""

from audit_app.rights import declare_right

VIEW_SESSIONS = declare_right("sessions_app.view_session", "see the sessions of others")
CHANGE_SESSIONS = declare_right("sessions_app.change_session", "bind, restrict and stop the sessions of others")
VIEW_FEEDBACK = declare_right("sessions_app.view_feedback", "see the feedback of others")
DELETE_FEEDBACK = declare_right("sessions_app.delete_feedback", "delete the feedback of others")
VIEW_CHANNELS = declare_right("sessions_app.view_channelaccount", "see channel accounts and their routes")
MANAGE_CHANNELS = declare_right("sessions_app.change_channelaccount", "change channel accounts")
CHANGE_SCHEDULES = declare_right("sessions_app.change_schedule", "run and pause the schedules of others")
VIEW_DELIVERIES = declare_right("sessions_app.view_delivery", "see deliveries")
RESEND_DELIVERIES = declare_right("sessions_app.change_delivery", "send deliveries again")
REVOKE_API_KEYS = declare_right("sessions_app.delete_apikey", "revoke the API keys of others")
CHANGE_USERS = declare_right("auth.change_user", "change users and sign them out everywhere")
SHARE_CHATS = declare_right("sessions_app.add_sharelink", "share chats by link")
REVOKE_SHARES = declare_right("sessions_app.delete_sharelink", "revoke the links of others to their chats")
SEND_AS_ANYONE = declare_right("sessions_app.send_as_anyone", "send messages as other senders")
