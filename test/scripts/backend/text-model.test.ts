import { createTextEngine } from "../../../scripts/backend/text-model.ts";
import { engineRules } from "./support/engine-rules.ts";

describe("the text engine", () => {
  const engine = createTextEngine();
  engineRules(() => engine);
});
