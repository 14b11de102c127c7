// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {TestToken} from "./TestToken.sol";

/// @title HookToken
/// @notice A token that calls who sends and who receives, and that can turn hostile: say false, say nothing at all, block, pause.
contract HookToken is TestToken {
    enum Mood {
        Honest,
        ReturnsFalse,
        Paused,
        SaysNothing
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
        _tell(to, "tokensReceived(uint256)", value);
        return _answer();
    }

    function transferFrom(address from, address to, uint256 value) public override returns (bool) {
        if (mood == Mood.ReturnsFalse) return false;
        _tell(from, "tokensToSend(uint256)", value);
        super.transferFrom(from, to, value);
        return _answer();
    }

    function _tell(address account, string memory hook, uint256 value) private {
        if (account.code.length == 0) return;
        // solhint-disable-next-line avoid-low-level-calls
        (bool ignored,) = account.call(abi.encodeWithSignature(hook, value));
        ignored;
    }

    function _answer() private view returns (bool) {
        if (mood != Mood.SaysNothing) return true;
        assembly {
            return(0, 0)
        }
    }

    function _update(address from, address to, uint256 value) internal override {
        if (mood == Mood.Paused) revert TokenPaused();
        if (blocked[from] || blocked[to]) revert Blocked(blocked[from] ? from : to);
        super._update(from, to, value);
    }
}
