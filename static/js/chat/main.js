// Sets up the chat page.
import { setUpAgents } from "./agents.js";
import { announce } from "./announcer.js";
import { setUpCitations } from "./citations.js";
import { setUpComposer } from "./composer.js";
import { setUpCopying } from "./copying.js";
import { setUpFiles } from "./files.js";
import { setUpFormulas } from "./formulas.js";
import { setUpKeys } from "./keys.js";
import { setUpLeaving } from "./leave.js";
import { Log } from "./log.js";
import { setUpPreferences } from "./preferences.js";
import { setUpRequests } from "./requests.js";
import { Scroll } from "./scroll.js";
import { setUpSidebar } from "./sidebar.js";
import { follow } from "./socket.js";
import { setUpVersions } from "./versions.js";
import { setUpWorkstreams } from "./workstreams.js";

const session = document.body.dataset.session;
const sidebar = setUpSidebar();
const scroll = new Scroll();
const log = new Log(scroll, sidebar.refreshSoon);

setUpRequests();
setUpCopying(announce);
setUpCitations();
setUpFiles(announce);
setUpFormulas();
setUpAgents();
setUpPreferences();
const composer = setUpComposer(session, log, scroll);
setUpKeys(composer, sidebar);
setUpVersions(composer);
setUpWorkstreams();
setUpLeaving(sidebar.refreshSoon);
log.refresh();
log.showAsked();
if (document.getElementById("dictate") && window.MediaRecorder && navigator.mediaDevices) {
  import("./dictation.js").then(({ setUpDictation }) => setUpDictation(announce));
}
if (session) follow(session, document.body.dataset.cursor, log);
