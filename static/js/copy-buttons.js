// The buttons of admin pages that copy code and secrets. The button itself says that it was copied.
import { setUpCopying } from "./chat/copying.js";

setUpCopying(() => {});
