-- 1: a session has at most one active root run
-- session {0} has {1} active runs
SELECT conversation_id, COUNT(*) FROM komand_run
WHERE status IN ('running', 'waiting') AND parent_id IS NULL GROUP BY conversation_id HAVING COUNT(*) > 1

-- 2: an open run without an owner has a due time, an open tool execution, or an open child run or parent that it awaits
-- run {0} ({1} {2}) is stuck: it has no owner, no due time, no open tool execution and no run that it awaits
SELECT id, status, waiting_on FROM komand_run r
WHERE status IN {open} AND owner IS NULL AND ready_at IS NULL AND {first} AND NOT EXISTS
  (SELECT 1 FROM komand_tool_execution x WHERE x.run_id = r.id AND x.status IN ('Pending', 'Running'))
  AND NOT (waiting_on = 'parent' AND parent_id IS NOT NULL)
  AND NOT (waiting_on = 'children' AND EXISTS (SELECT 1 FROM komand_run c
    WHERE COALESCE(c.listener_id, c.parent_id) = r.id
    AND c.status IN {open} AND c.waiting_on <> 'parent'))

-- 2: an open child run has an open listener, is on its own, or is being cancelled
-- child run {0} is {1} although its listener {2} has ended
SELECT c.id, c.status, p.id FROM komand_run c JOIN komand_run p ON p.id = COALESCE(c.listener_id, c.parent_id)
WHERE c.status IN {open} AND p.ended_at IS NOT NULL AND NOT c.is_on_its_own
  AND (c.owner IS NULL OR c.cancel_requested_at IS NULL)

-- 2: the listener of a child run on its own has ended
-- child run {0} is on its own although its listener {1} is open
SELECT c.id, p.id FROM komand_run c JOIN komand_run p ON p.id = COALESCE(c.listener_id, c.parent_id)
WHERE c.is_on_its_own AND p.ended_at IS NULL

-- 2: an open child run has a deadline that has not passed, or waits for its parent
-- child run {0} is {1} without a deadline
SELECT id, status FROM komand_run
WHERE parent_id IS NOT NULL AND status IN {open} AND deadline_at IS NULL AND seconds_left IS NULL

-- 3: the end of a child run has reached its listener, once, unless that ended before it or was told to finish
-- run {1} got {2} reports of the end of the child run {0}
SELECT c.id, p.id, COUNT(m.id)
FROM komand_run c JOIN komand_run p ON p.id = COALESCE(c.listener_id, c.parent_id) LEFT JOIN komand_run_message m
  ON m.about_id = c.id AND m.kind = 'report' AND m.run_id = p.id
WHERE c.ended_at IS NOT NULL AND NOT c.is_on_its_own AND (p.status = 'completed' OR (p.ended_at IS NULL AND c.conversation_told))
  AND c.error_code <> 'parent_ended'
  AND NOT EXISTS (SELECT 1 FROM komand_run_message f WHERE f.run_id = p.id AND f.kind = 'finish')
GROUP BY c.id, p.id HAVING COUNT(m.id) <> 1

-- 3: a completed run has read every message to it
-- run {0} has completed with {1} messages, of which its model got {2}
SELECT r.id, r.words, MAX(s.words_seen) FROM komand_run r JOIN komand_step s ON s.run_id = r.id
WHERE r.status = 'completed' AND r.child_count > 0 AND s.call_kind = 'model'
GROUP BY r.id, r.words HAVING MAX(s.words_seen) <> r.words

-- 3: the steps and answer of a child run are no turns of the session
-- child run {0} has a turn
SELECT r.id FROM komand_run r JOIN komand_turn t ON t.run_id = r.id WHERE r.parent_id IS NOT NULL

-- 2: a run that is due is claimed
-- run {0} ({1}) is due but not claimed
SELECT id, status FROM komand_run r
WHERE status IN {open} AND owner IS NULL AND ready_at <= CURRENT_TIMESTAMP AND {first}

-- 2: only a running run has an owner
-- run {0} is {1} but has an owner
SELECT id, status FROM komand_run WHERE owner IS NOT NULL AND status <> 'running'

-- 2: an open tool execution has an owner, a nudge time, a pending approval or question, or awaits a call of its batch
-- execution {0} ({1}) is stuck: it has no owner, no nudge time, and no pending approval or question
SELECT id, status FROM komand_tool_execution x
WHERE (status = 'Running' AND owner IS NULL
  AND NOT EXISTS (SELECT 1 FROM komand_tool_execution i WHERE i.batch_id = x.id AND i.status IN ('Pending', 'Running')))
OR (status = 'Pending' AND ring_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM komand_approval a WHERE a.execution_id = x.id AND a.status = 'pending')
  AND NOT EXISTS (SELECT 1 FROM komand_input_request q WHERE q.execution_id = x.id AND q.status = 'pending')
  AND NOT EXISTS (SELECT 1 FROM komand_tool_execution i WHERE i.batch_id = x.batch_id AND i.id <> x.id
    AND (i.status = 'Running' OR i.ring_at IS NOT NULL)))

-- 3: an ended root run has exactly one answer
-- run {0} ({1}) has {2} answers
SELECT r.id, r.status, COUNT(t.id) FROM komand_run r LEFT JOIN komand_turn t ON t.run_id = r.id AND t.is_answer
WHERE r.ended_at IS NOT NULL AND r.parent_id IS NULL GROUP BY r.id, r.status HAVING COUNT(t.id) <> 1

-- 3: an answer in the conversation is the answer of its run, and the text of the last step of a completed run
-- the answer of run {0} differs from its text in the conversation or in the last step
SELECT r.id FROM komand_run r JOIN komand_turn t ON t.run_id = r.id AND t.is_answer
WHERE t.content <> r.answer OR (r.status = 'completed' AND {last_text} <> t.content)

-- 4: each tool call of a step has one execution
-- step {1} of run {0} requested {2} tool calls but has {3} executions
SELECT s.run_id, s.{index}, {length}(s.tool_calls), {calls} FROM komand_step s
WHERE {calls} <> {length}(s.tool_calls) AND ({length}(s.tool_calls) = 0
  OR EXISTS (SELECT 1 FROM komand_step n WHERE n.run_id = s.run_id AND n.{index} > s.{index}))

-- 4: no tool execution is open after its run has ended
-- execution {0} is {1} although its run has ended
SELECT x.id, x.status FROM komand_tool_execution x JOIN komand_run r ON r.id = x.run_id
WHERE r.ended_at IS NOT NULL AND x.status IN ('Pending', 'Running')

-- 4: each tool execution of an ended run, but for those of a batch, has a turn
-- run {0} has {1} tool executions but {2} tool turns
SELECT r.id, r.executions, r.turns
FROM (SELECT id, conversation_told, parent_id,
  (SELECT COUNT(*) FROM komand_tool_execution x WHERE x.run_id = komand_run.id AND x.batch_id IS NULL) executions,
  (SELECT COUNT(*) FROM komand_turn t WHERE t.run_id = komand_run.id AND t.role = 'tool') turns FROM komand_run) r
WHERE r.conversation_told AND r.parent_id IS NULL AND r.executions <> r.turns

-- 5: an ended run has one terminal event, an open run none
-- run {0} ({1}) has {2} terminal events
SELECT r.id, r.status, COUNT(e.id)
FROM komand_run r LEFT JOIN komand_event e ON e.run_id = r.id AND e.type IN {ends}
WHERE {kept_events} GROUP BY r.id, r.status, r.ended_at
HAVING COUNT(e.id) <> CASE WHEN r.ended_at IS NULL THEN 0 ELSE 1 END

-- 5: the terminal event of a run matches its status
-- run {0} is {1} but its terminal event is {2}
SELECT r.id, r.status, e.type FROM komand_run r JOIN komand_event e ON e.run_id = r.id
WHERE e.type IN {ends} AND e.type <> 'run.' || r.status

-- 5: an answer has one `message.completed` event
-- run {0} has {1} message.completed events
SELECT r.id, COUNT(e.id)
FROM komand_run r LEFT JOIN komand_event e ON e.run_id = r.id AND e.type = 'message.completed'
WHERE r.conversation_told AND r.parent_id IS NULL AND {kept_events} GROUP BY r.id HAVING COUNT(e.id) <> 1

-- 5: only a sent delivery has a sending time
-- delivery {0} is {1}, which its sent_at contradicts
SELECT id, status FROM komand_delivery WHERE (status = 'sent') <> (sent_at IS NOT NULL)

-- 5: the answer to an inbound message has a delivery
-- run {0} has ended without a delivery to its channel
SELECT r.id FROM komand_run r JOIN komand_turn t ON t.run_id = r.id AND t.is_answer
WHERE r.conversation_told AND (t.content <> '' OR t.state = 'error')
  AND EXISTS (SELECT 1 FROM komand_inbound_message m WHERE m.run_id = r.id)
  AND NOT EXISTS (SELECT 1 FROM komand_delivery d WHERE d.run_id = r.id AND d.status <> 'draft')

-- 5: a delivery has all its parts
-- the delivery of run {0} has {1} of {2} parts
SELECT run_id, COUNT(*), MAX(parts) FROM komand_delivery
WHERE {is_answer} GROUP BY run_id, lane HAVING MIN(part) = 0 AND COUNT(*) <> MAX(parts)

-- 5: a delivery has one `delivery.sent` event once all its parts are sent
-- run {0} has {1} sent deliveries but {2} delivery.sent events
SELECT d.run_id, d.n, COUNT(e.id)
FROM (SELECT run_id, SUM(CASE WHEN sent = total THEN 1 ELSE 0 END) n
  FROM (SELECT run_id, COUNT(*) total, SUM(CASE WHEN status = 'sent' THEN 1 ELSE 0 END) sent FROM komand_delivery
    WHERE {is_answer} GROUP BY run_id, lane) parts GROUP BY run_id) d
LEFT JOIN komand_event e ON e.run_id = d.run_id AND e.type = 'delivery.sent'
GROUP BY d.run_id, d.n HAVING COUNT(e.id) <> d.n

-- 5: no delivery is pending after it has expired
-- delivery {0} is pending but expired at {1}
SELECT id, expires_at FROM komand_delivery
WHERE status = 'pending' AND owner IS NULL AND expires_at <= CURRENT_TIMESTAMP

-- 6: no tool execution is attempted more often than its effect allows
-- execution {0} ({1}, {2}) was attempted {3} times
SELECT id, tool, effect, attempts FROM komand_tool_execution
WHERE attempts > CASE WHEN effect = 'once' THEN 1 ELSE {attempts} END

-- 6: a tool execution that needs approval is attempted only after it
-- execution {0} was attempted but its approval is {1}
SELECT x.id, a.status FROM komand_tool_execution x JOIN komand_approval a ON a.execution_id = x.id
WHERE x.attempts > 0 AND a.status <> 'approved'

-- 7: the steps of a run, and its compactions, are numbered without gaps
-- run {0} has {1} steps and compactions but numbers from {2} to {3}
SELECT r.id, COUNT(*), MIN(s.{index}), MAX(s.{index}) FROM komand_step s JOIN komand_run r ON r.id = s.run_id
WHERE {kept_steps} GROUP BY r.id
HAVING COUNT(*) <> MAX(s.{index}) - MIN(s.{index}) + 1 OR MAX(s.{index}) < -1 OR MIN(s.{index}) > 0

-- 7: a summary stands for earlier turns of its session and is the text of a compaction
-- the summary {0} of session {1} has no turns, or differs from its step
SELECT c.id, c.session_id FROM komand_checkpoint c
WHERE NOT EXISTS (SELECT 1 FROM komand_turn t WHERE t.session_id = c.session_id AND t.ordinal = c.ordinal)
  OR EXISTS (SELECT 1 FROM komand_step s WHERE s.run_id = c.run_id AND s.{index} = -1 - c.{index}
    AND s.text <> c.summary)

-- 7: fences never decrease
-- step {1} of run {0} has fence {2}, which is out of order
SELECT s.run_id, s.{index}, s.fence FROM komand_step s JOIN komand_run r ON r.id = s.run_id
WHERE s.fence > r.fence OR EXISTS (SELECT 1 FROM komand_step n WHERE n.run_id = s.run_id
  AND n.{index} > s.{index} AND s.{index} >= 0 AND n.fence < s.fence)

-- 7: a timeline has no gap and ends at its head
-- the timeline of session {0} has a gap or a wrong head: {1} events, head {2}
SELECT h.session_id, COUNT(e.id), h.seq
FROM komand_timeline_head h LEFT JOIN komand_event e ON e.session_id = h.session_id GROUP BY h.session_id, h.seq
HAVING COUNT(e.id) = 0 OR MAX(e.seq) <> h.seq OR COUNT(e.id) <> MAX(e.seq) - MIN(e.seq) + 1

-- 7: timestamps increase along a timeline
-- event {1} of session {0} is not later than the event before it
SELECT b.session_id, b.seq
FROM komand_event a JOIN komand_event b ON b.session_id = a.session_id AND b.seq = a.seq + 1
WHERE b.ts <= a.ts

-- 8: each turn has a run of its session and ordinal
-- turn {0} of session {1} has no run of that session and ordinal
-- A turn of an imported history has an ordinal without a run.
SELECT t.id, t.session_id
FROM komand_turn t LEFT JOIN komand_run r ON r.id = t.run_id AND r.conversation_id = t.session_id
  AND r.ordinal = t.ordinal
WHERE r.id IS NULL AND (t.run_id IS NOT NULL
  OR EXISTS (SELECT 1 FROM komand_run o WHERE o.conversation_id = t.session_id AND o.ordinal = t.ordinal))

-- 8: a run has as many user turns and messages as it counts
-- run {0} counts {1} user turns but has {2}
SELECT r.id, r.words, r.found
FROM (SELECT id, words,
  (SELECT COUNT(*) FROM komand_turn t WHERE t.run_id = komand_run.id AND t.role = 'user' AND t.tool_call_ids IS NULL)
  + (SELECT COUNT(*) FROM komand_run_message m WHERE m.run_id = komand_run.id) found FROM komand_run) r
WHERE r.found <> r.words

-- 8: the turns of the active branch are on the path, all others are not
-- turn {0} of session {1} contradicts the active branch of its session
WITH RECURSIVE path (session_id, branch, below) AS (
  SELECT id, active_branch, 2147483647 FROM komand_session
  UNION ALL SELECT b.session_id, b.parent, b.replaces
  FROM komand_branch b JOIN path p ON p.session_id = b.session_id AND p.branch = b.number)
SELECT t.id, t.session_id
FROM komand_turn t LEFT JOIN path p ON p.session_id = t.session_id AND p.branch = t.branch AND t.ordinal < p.below
WHERE t.is_off_path = (p.session_id IS NOT NULL)

-- 8: a branch begins with a run of its own, behind the one that it replaces
-- branch {1} of session {0} has no run at its beginning, or replaces a later one
SELECT b.session_id, b.number
FROM komand_branch b LEFT JOIN komand_turn t ON t.session_id = b.session_id AND t.ordinal = b.ordinal AND t.part = 0
WHERE t.branch IS NULL OR t.branch <> b.number OR b.replaces >= b.ordinal OR b.parent >= b.number

-- 8: an inbound message has a run or a reason
-- inbound message {0} has neither a run nor a reason
SELECT id FROM komand_inbound_message WHERE run_id IS NULL AND reason = ''

-- 8: an inbound message is a user turn of its run
-- inbound message {0} is not a user turn of its run {1}
SELECT m.id, m.run_id
FROM komand_inbound_message m LEFT JOIN komand_turn t ON t.id = m.turn_id AND t.run_id = m.run_id
  AND t.session_id = m.session_id AND t.role = 'user'
WHERE m.run_id IS NOT NULL AND t.id IS NULL

-- 8: inbound messages of one turn are of one session, sender and chat, and a burst or an album
-- turn {0} comes from inbound messages that do not belong together, {1} and {2}
SELECT m.turn_id, b.id, m.id
FROM (SELECT id, LAG(id) OVER (PARTITION BY turn_id ORDER BY received_at, id) AS before
  FROM komand_inbound_message WHERE turn_id IS NOT NULL) pair
JOIN komand_inbound_message m ON m.id = pair.id
JOIN komand_inbound_message b ON b.id = pair.before
WHERE m.session_id <> b.session_id OR m.account_id <> b.account_id
  OR m.sender_id <> b.sender_id OR m.chat_id <> b.chat_id
  OR ({seconds_apart} > {burst} AND COALESCE(m.metadata ->> 'albumId', '') <> COALESCE(b.metadata ->> 'albumId', 'none'))

-- 9: a run counts the tokens of all its steps; failed calls add to them
-- run {0} counts {1} and {2} tokens, fewer than its steps
SELECT r.id, r.input_tokens, r.output_tokens FROM komand_run r LEFT JOIN komand_step s ON s.run_id = r.id
WHERE {kept_steps} GROUP BY r.id, r.input_tokens, r.output_tokens
HAVING r.input_tokens < COALESCE(SUM(s.input_tokens), 0)
  OR r.output_tokens < COALESCE(SUM(s.output_tokens), 0)

-- 9: only a run that calls a model, or waits for the tokens of the call, has reserved any
-- run {0} is {1} but has reserved {2} tokens
SELECT id, status, reserved_tokens FROM komand_run
WHERE reserved_tokens <> 0 AND owner IS NULL AND waiting_on <> 'budget'

-- 10: each audited event has an audit entry
-- session {0}: {2} events have no audit entry {1}
SELECT session_id, action, SUM(n)
FROM (SELECT session_id, CASE type {cases} END action, 1 n FROM komand_event
  WHERE type IN {types} AND {kept_entries}
  -- Releases before 0.4 wrote ToolExecutionStarted when a call was requested, with its arguments.
  UNION ALL SELECT session_id, CASE WHEN action = 'ToolExecutionStarted' AND details -> 'arguments' IS NOT NULL
    THEN 'ToolCallRequested' ELSE action END, -1 FROM komand_audit_log
  WHERE session_id IS NOT NULL AND action IN {actions}) entries
GROUP BY session_id, action HAVING SUM(n) > 0

-- 10: a started run has one `run.started` event
-- run {0} has {1} run.started events
SELECT r.id, COUNT(e.id)
FROM komand_run r LEFT JOIN komand_event e ON e.run_id = r.id AND e.type = 'run.started'
WHERE {kept_events} GROUP BY r.id, r.started_at
HAVING COUNT(e.id) <> CASE WHEN r.started_at IS NULL THEN 0 ELSE 1 END
