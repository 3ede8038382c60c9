package import Records
import RelayCore

/// A device that listens for notices now.
package struct ListeningDevice: Sendable {
    package var address: NoticeAddress
    package var deviceID: String
    /// How long it has listened; `nil` for one that polls.
    package var since: Duration?
    package var notices: NoticeTally.Counts
    /// Of the user, in all databases.
    package var subscriptions: Int
}

extension NoticeHub {
    /// The devices that listen in one environment, and how many there are in all when `limit` does not hold them.
    package func devices(in home: ContainerEnvironment, limit: Int) -> (devices: [ListeningDevice], count: Int) {
        listening(in: home, limit: limit)
    }

    /// Ends one device's connection, which may come back; false where there is none.
    package func disconnect(_ deviceID: String, of address: NoticeAddress) -> Bool {
        end(deviceID, of: address)
    }

    /// Sends the user's devices a notice as a change to their database would, if they subscribe to anything.
    package func sendTestNotice(to address: NoticeAddress) {
        guard let known = subscriptions(of: address), let item = known.items.first else { return }
        let subject = NoticeSubject(scope: item.scope, zone: nil)
        guard let notice = notice(about: subject, syncToken: nil, for: address, subscriptions: known) else { return }
        deliver(notice, to: address, exceptDevice: nil)
    }
}
