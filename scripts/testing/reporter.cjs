// What mocha's own "spec" reporter prints, and the counts in the file that T4T_TEST_RESULTS names.
const { writeFileSync } = require("node:fs");
const Mocha = require("mocha");

module.exports = class extends Mocha.reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    const file = process.env.T4T_TEST_RESULTS;
    if (!file) return;
    runner.once(Mocha.Runner.constants.EVENT_RUN_END, () => {
      const { passes, failures, pending } = this.stats;
      writeFileSync(file, JSON.stringify({ passed: passes, failed: failures, pending }));
    });
  }
};
