// The set-up page of channel accounts: copies code, such as manifests. The button itself says that it was copied.
import { setUpCopying } from "./chat/copying.js";

setUpCopying(() => {});
