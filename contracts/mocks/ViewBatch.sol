// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title ViewBatch
/// @notice Many reads at one block in one call, for tests that compare everything after every step.
contract ViewBatch {
    /// @notice What each call returns, or the error with which it reverts.
    function read(address[] calldata targets, bytes[] calldata calls)
        external
        view
        returns (bool[] memory succeeded, bytes[] memory results)
    {
        succeeded = new bool[](targets.length);
        results = new bytes[](targets.length);
        for (uint256 i = 0; i < targets.length; ++i) {
            (succeeded[i], results[i]) = targets[i].staticcall(calls[i]);
        }
    }
}
