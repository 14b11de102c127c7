import base from "../../hardhat.config.ts";
import { branchCoverage } from "./plugin.ts";

// Hardhat wants a default export. The tests are those of the usual configuration.
export default { ...base, plugins: [...(base.plugins ?? []), branchCoverage] };
