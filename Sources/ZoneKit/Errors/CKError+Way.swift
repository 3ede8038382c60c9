extension CKError {
    /// Whether it is unknown if the relay has executed the request.
    package var leavesOutcomeOpen: Bool {
        code == .serverResponseLost || code == .operationCancelled || userInfo[Self.outcomeIsOpenKey] != nil
    }

    /// The key in `userInfo` that marks an unknown outcome where the code does not imply it.
    static let outcomeIsOpenKey = "ZonecastOutcomeIsOpen"

    /// Whether the error of a whole request means that the connection or the relay is broken, and says nothing about
    /// its items.
    ///
    /// Examples are a proxy without a backend, the login page of a public network, a damaged store, and a missing
    /// container. The pending changes stay pending.
    package var isOfWay: Bool {
        switch code {
        case .internalError, .serverRejectedRequest, .badContainer, .missingEntitlement, .incompatibleVersion: true
        default: false
        }
    }
}
