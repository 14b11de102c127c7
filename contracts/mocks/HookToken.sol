// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {TestToken} from "./TestToken.sol";

/// @title HookToken
/// @notice A token that calls the receiver of a transfer, and that can turn hostile: return false, return nothing of use, block, pause.
contract HookToken is TestToken {
    enum Mood {
        Honest,
        ReturnsFalse,
        Paused
    }

    error TokenPaused();
    error Blocked(address account);

    Mood public mood;
    mapping(address account => bool isBlocked) public blocked;

    constructor() TestToken(6) {}

    function setMood(Mood mood_) external {
        mood = mood_;
    }

    function setBlocked(address account, bool isBlocked) external {
        blocked[account] = isBlocked;
    }

    function transfer(address to, uint256 value) public override returns (bool) {
        if (mood == Mood.ReturnsFalse) return false;
        super.transfer(to, value);
        if (to.code.length != 0) {
            // solhint-disable-next-line avoid-low-level-calls
            (bool ignored,) = to.call(abi.encodeWithSignature("tokensReceived(uint256)", value));
            ignored;
        }
        return true;
    }

    function transferFrom(address from, address to, uint256 value) public override returns (bool) {
        if (mood == Mood.ReturnsFalse) return false;
        return super.transferFrom(from, to, value);
    }

    function _update(address from, address to, uint256 value) internal override {
        if (mood == Mood.Paused) revert TokenPaused();
        if (blocked[from] || blocked[to]) revert Blocked(blocked[from] ? from : to);
        super._update(from, to, value);
    }
}
