import path from "node:path";
import type { HardhatPlugin } from "hardhat/types/plugins";
import { instrumented, measuredFiles } from "./branches.ts";

/** Makes the contracts say which branches they take, on top of Hardhat's own coverage. */
export const branchCoverage: HardhatPlugin = {
  id: "t4t-branch-coverage",
  hookHandlers: {
    solidity: async () => ({
      default: async () => ({
        preprocessProjectFileBeforeBuilding: async (context, sourceName, fsPath, content, version, next) => {
          const processed = await next(context, sourceName, fsPath, content, version);
          const file = path.relative(context.config.paths.root, fsPath);
          const isMeasured = context.globalOptions.coverage && measuredFiles.test(file);
          return isMeasured ? instrumented(file, processed) : processed;
        },
      }),
    }),
  },
};
