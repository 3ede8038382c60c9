package import RelayCore

/// A device's address at a push service, in the columns of a row.
package struct PushTargetColumns: Sendable {
    package var kind: String
    package var address: String
    package var topic: String?
    package var isSandbox: Bool
    package var key: [UInt8]?
    package var secret: [UInt8]?

    package init(
        kind: String,
        address: String,
        topic: String? = nil,
        isSandbox: Bool = false,
        key: [UInt8]? = nil,
        secret: [UInt8]? = nil
    ) {
        self.kind = kind
        self.address = address
        self.topic = topic
        self.isSandbox = isSandbox
        self.key = key
        self.secret = secret
    }

    package init(_ target: PushTarget) {
        switch target {
        case .apns(let token, let topic, let isSandbox):
            self.init(kind: "apns", address: token, topic: topic, isSandbox: isSandbox)
        case .webPush(let endpoint, let key, let secret):
            self.init(kind: "webPush", address: endpoint, key: key, secret: secret)
        case .ntfy(let topicURL): self.init(kind: "ntfy", address: topicURL)
        case .fcm(let token): self.init(kind: "fcm", address: token)
        }
    }

    /// `nil` for a kind that only a later version supports.
    package var target: PushTarget? {
        switch kind {
        case "apns": .apns(token: address, topic: topic ?? "", isSandbox: isSandbox)
        case "webPush": .webPush(endpoint: address, key: key ?? [], secret: secret ?? [])
        case "ntfy": .ntfy(topicURL: address)
        case "fcm": .fcm(token: address)
        default: nil
        }
    }
}
