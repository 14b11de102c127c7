// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

/// @title Reentrant
/// @notice An account that makes a call, and another one whenever a token calls it in the midst of the first.
contract Reentrant {
    address private _target;
    bytes private _again;
    uint256 private _times;

    function approve(IERC20 token, address spender) external {
        token.approve(spender, type(uint256).max);
    }

    /// @notice Calls `target` with `data`, and with `again` up to `times` from within.
    function act(address target, bytes calldata data, bytes calldata again, uint256 times) external {
        (_target, _again, _times) = (target, again, times);
        // solhint-disable-next-line avoid-low-level-calls
        (bool success, bytes memory answer) = target.call(data);
        _times = 0;
        if (success) return;
        assembly {
            revert(add(answer, 0x20), mload(answer))
        }
    }

    function tokensToSend(uint256) external {
        _reenter();
    }

    function tokensReceived(uint256) external {
        _reenter();
    }

    function _reenter() private {
        if (_times == 0) return;
        --_times;
        // What is refused is tried, not insisted on.
        // solhint-disable-next-line avoid-low-level-calls
        (bool ignored,) = _target.call(_again);
        ignored;
    }
}
