/// Where connections live and their orders are carried out: an event loop, or a test's own line of work.
///
/// Carries orders out one at a time, in the order they were posted, by `NoticeLaneRoll.perform`.
package protocol NoticeLane: Sendable {
    /// Hands over an order from any thread.
    ///
    /// Must not block, and must not carry it out before it returns.
    func post(_ order: NoticeOrder)
}

/// What the hub asks of a lane.
package enum NoticeOrder: Sendable {
    /// Give this notice to every device of the user on this lane, except one.
    case deliver(OutgoingNotice, to: NoticeAddress, exceptDevice: String?)
    /// End one connection.
    case end(NoticeConnectionID, of: NoticeAddress, NoticeClose)
}

/// Names a connection within its hub.
package struct NoticeConnectionID: Hashable, Sendable {
    let number: UInt64
}

/// The connections of one lane by user.
///
/// Confined to that lane.
///
/// Finding a user's devices costs one look-up and then their number, however many other connections the lane holds.
package final class NoticeLaneRoll {
    private var byAddress: [NoticeAddress: [NoticeConnection]] = [:]

    package init() {}

    package func perform(_ order: NoticeOrder) {
        switch order {
        case .deliver(let notice, let address, let device):
            // A connection may end while it is served; the copy keeps this loop whole.
            guard let connections = byAddress[address] else { return }
            var reached = 0
            for connection in connections where device == nil || connection.deviceID != device {
                connection.deliver(notice)
                reached += 1
            }
            notice.delivery?.reached(reached)
        case .end(let id, let address, let reason):
            byAddress[address]?.first { $0.id == id }?.end(reason)
        }
    }

    func add(_ connection: NoticeConnection, at address: NoticeAddress) {
        byAddress[address, default: []].append(connection)
    }

    func remove(_ connection: NoticeConnection, at address: NoticeAddress) {
        guard let index = byAddress[address]?.firstIndex(where: { $0 === connection }) else { return }
        byAddress[address]?.remove(at: index)
        if byAddress[address]?.isEmpty == true { byAddress[address] = nil }
    }
}
