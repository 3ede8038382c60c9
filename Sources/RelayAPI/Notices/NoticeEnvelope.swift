import Records
import RelayCore
import Wire

/// A message on its way between nodes.
package struct NoticeEnvelope: Sendable {
    /// The format of messages; a node ignores those of another format, and its sweep finds what they said.
    package static let currentFormat = 1

    package var format = currentFormat
    package var sender: NodeID
    /// Drawn when the sender starts.
    package var run: UInt64
    /// Counts the messages of the run, from 1, so that a receiver notices what it missed.
    package var number: UInt64
    /// `nil` if the message did not fit: the receiver must sweep to learn what has changed.
    package var message: NoticeMessage?
}

// MARK: Bytes

extension NoticeEnvelope {
    /// The largest record whose fields a message about query subscriptions contains.
    private static let maxFieldBytes = 16 << 10

    /// The envelope as one line of JSON.
    ///
    /// A schema is left out, since the store has it by its version, and so are records with large fields.
    package var encoded: [UInt8] {
        var json = JSONWriter(reserving: 256)
        json.object { json in
            json.member("f", format)
            json.member("s", sender.name)
            json.member("r", Int64(bitPattern: run))
            json.member("n", Int64(bitPattern: number))
            switch message {
            case .zonesChanged(let changes, _):
                json.key("zones")
                json.array(changes) { json, change in json.zoneChange(change) }
            case .subscriptionsChanged(let changes, let version, let home):
                json.home(home)
                json.member("version", Int64(bitPattern: version))
                json.key("subscriptions")
                json.array(changes) { json, change in json.subscriptionChange(change) }
            case .recordMatched(let matches) where matches.fieldBytes <= Self.maxFieldBytes:
                json.key("matches")
                json.matches(matches)
            case .credentialsRevoked(_, let generation): json.member("revoked", Int64(bitPattern: generation))
            case .presence(let device, let address, let connection, let isConnected, let node):
                json.member(isConnected ? "joined" : "left", node?.name ?? "")
                json.key("device")
                json.device(PresentDevice(deviceID: device, address: address, connection: connection))
            case .present(let devices, let node):
                json.member("present", node.name)
                json.key("devices")
                json.array(devices) { json, device in json.device(device) }
            case .pushDevicesChanged(let address):
                json.home(address.store)
                json.member("registered", address.user.recordName)
            case .sweeping: json.member("sweeps", true)
            case .recordMatched, .schemaChanged, .recordsChanged, .nodesChanged, nil: break
            }
        }
        return json.bytes
    }

    /// Reads an envelope; `nil` if it is malformed.
    package init?(_ bytes: [UInt8]) {
        do throws(JSONError) {
            let json = try JSONDocument(parsing: bytes).root
            format = Int(try json.required("f").int64())
            sender = NodeID(try json.required("s").string())
            run = UInt64(bitPattern: try json.required("r").int64())
            number = UInt64(bitPattern: try json.required("n").int64())
            message = format == Self.currentFormat ? try Self.message(json) : nil
        } catch {
            return nil
        }
    }

    private static func message(_ json: JSONValue) throws(JSONError) -> NoticeMessage? {
        if let zones = json["zones"] {
            var changes: [ZoneChange] = []
            for each in try zones.elements() { changes.append(try each.zoneChange()) }
            return .zonesChanged(changes, traces: [])
        }
        if let subscriptions = json["subscriptions"] {
            var changes: [CommittedSubscription] = []
            for each in try subscriptions.elements() { changes.append(try each.subscriptionChange()) }
            let version = UInt64(bitPattern: try json.required("version").int64())
            return .subscriptionsChanged(changes, version: version, in: try json.home())
        }
        if let matches = json["matches"] { return .recordMatched(try matches.matches()) }
        if let generation = json["revoked"] {
            return .credentialsRevoked([], generation: UInt64(bitPattern: try generation.int64()))
        }
        if json.hasMember("sweeps") { return .sweeping }
        if let user = json["registered"] {
            return .pushDevicesChanged(at: NoticeAddress(store: try json.home(), user: UserID(try user.string())))
        }
        if let sender = json["joined"] ?? json["left"] {
            let node = try sender.string()
            let device = try json.required("device").device()
            return .presence(
                of: device.deviceID,
                at: device.address,
                as: device.connection,
                isConnected: json.hasMember("joined"),
                on: node.isEmpty ? nil : NodeID(node)
            )
        }
        if let node = json["present"] {
            var devices: [PresentDevice] = []
            for each in try json.required("devices").elements() { devices.append(try each.device()) }
            return .present(devices, on: NodeID(try node.string()))
        }
        return nil
    }
}

extension RecordMatches {
    fileprivate var fieldBytes: Int { matches.reduce(0) { $0 + $1.record.fields.count } }
}

// MARK: Parts

extension JSONWriter {
    fileprivate mutating func home(_ home: ContainerEnvironment) {
        member("c", home.container.name)
        member("e", home.environment.rawValue)
    }

    fileprivate mutating func zone(_ zone: ZoneID) {
        member("z", zone.zoneName)
        member("o", zone.owner.recordName)
    }

    fileprivate mutating func optional(_ name: StaticString, _ text: String?) {
        if let text { member(name, text) }
    }

    fileprivate mutating func optional(_ name: StaticString, base64 bytes: [UInt8]?) {
        guard let bytes else { return }
        key(name)
        base64(bytes)
    }

    fileprivate mutating func zoneChange(_ change: ZoneChange) {
        object { json in
            json.home(change.store)
            json.zone(change.zone)
            if change.scope != .private { json.member("d", change.scope.rawValue) }
            json.optional("t", change.syncToken)
            json.optional("i", change.deviceID)
            if change.audience != [change.zone.owner] {
                json.key("a")
                json.array(change.audience) { json, user in json.string(user.recordName) }
            }
            if !change.namesZone { json.member("u", true) }
        }
    }

    fileprivate mutating func subscriptionChange(_ change: CommittedSubscription) {
        object { json in
            json.member("user", change.user.recordName)
            json.member("d", change.scope.rawValue)
            json.member("id", change.id)
            guard let subscription = change.subscription else { return }
            json.key("s")
            json.subscription(subscription)
        }
    }

    private mutating func subscription(_ subscription: Subscription) {
        object { json in
            json.member("id", subscription.id)
            json.optional("type", subscription.recordType)
            json.optional("info", base64: subscription.notificationInfo)
            switch subscription.kind {
            case .database: break
            case .zone(let zone):
                json.member("k", "zone")
                if let zone { json.zone(zone) }
            case .query(let query):
                json.member("k", "query")
                json.member("of", query.recordType)
                json.optional("query", base64: query.json)
                if let zone = query.zone { json.zone(zone) }
                json.member("on", query.firesOn.rawValue)
                if query.firesOnce { json.member("once", true) }
            }
        }
    }

    fileprivate mutating func matches(_ found: RecordMatches) {
        object { json in
            json.home(found.address.store)
            json.member("user", found.address.user.recordName)
            json.zone(found.zone)
            json.member("i", found.device)
            json.key("m")
            json.array(found.matches) { json, match in
                json.object { json in
                    json.member("d", match.scope.rawValue)
                    json.key("s")
                    json.subscription(match.subscription)
                    json.member("on", match.event.rawValue)
                    json.member("name", match.record.name)
                    json.member("type", match.record.type)
                    json.optional("fields", base64: match.record.fields)
                    let fields = found.schema.types[match.record.type]?.fields ?? [:]
                    json.key("secret")
                    json.array(fields.filter(\.value.isEncrypted).keys.sorted()) { json, name in json.string(name) }
                }
            }
        }
    }

    fileprivate mutating func device(_ device: PresentDevice) {
        object { json in
            json.home(device.address.store)
            json.member("user", device.address.user.recordName)
            json.member("i", device.deviceID)
            json.member("n", Int64(bitPattern: device.connection.number))
        }
    }
}

extension JSONValue {
    fileprivate func home() throws(JSONError) -> ContainerEnvironment {
        let (container, environment) = (try required("c"), try required("e"))
        guard let id = ContainerID(try container.string()) else { throw container.mismatch("a container") }
        guard let kind = Environment(rawValue: try environment.string()) else {
            throw environment.mismatch("an environment")
        }
        return ContainerEnvironment(id, kind)
    }

    private func zone() throws(JSONError) -> ZoneID {
        ZoneID(try required("z").string(), owner: UserID(try required("o").string()))
    }

    private func scope() throws(JSONError) -> DatabaseScope {
        guard let value = self["d"] else { return .private }
        guard let scope = DatabaseScope(rawValue: Int(try value.int64())) else { throw value.mismatch("a scope") }
        return scope
    }

    private func base64(_ name: StaticString) throws(JSONError) -> [UInt8]? {
        guard let value = self[name] else { return nil }
        guard let bytes = Base64.decode(try value.string()) else { throw value.mismatch("Base64") }
        return bytes
    }

    private func user() throws(JSONError) -> UserID { UserID(try required("user").string()) }

    fileprivate func zoneChange() throws(JSONError) -> ZoneChange {
        var audience: [UserID]?
        if let users = self["a"] {
            var named: [UserID] = []
            for each in try users.elements() { named.append(UserID(try each.string())) }
            audience = named
        }
        return ZoneChange(
            store: try home(),
            zone: try zone(),
            scope: try scope(),
            syncToken: try self["t"]?.string(),
            deviceID: try self["i"]?.string(),
            audience: audience,
            namesZone: !hasMember("u")
        )
    }

    fileprivate func subscriptionChange() throws(JSONError) -> CommittedSubscription {
        CommittedSubscription(
            user: try user(),
            scope: try scope(),
            id: try required("id").string(),
            subscription: try self["s"]?.subscription()
        )
    }

    private func subscription() throws(JSONError) -> Subscription {
        let kind: Subscription.Kind
        switch try self["k"]?.string() {
        case "zone": kind = .zone(hasMember("z") ? try zone() : nil)
        case "query":
            kind = .query(
                SubscribedQuery(
                    recordType: try required("of").string(),
                    json: try base64("query") ?? [],
                    zone: hasMember("z") ? try zone() : nil,
                    firesOn: RecordEvents(rawValue: Int(try required("on").int64())),
                    firesOnce: hasMember("once")
                )
            )
        default: kind = .database
        }
        return Subscription(
            id: try required("id").string(),
            kind: kind,
            recordType: try self["type"]?.string(),
            notificationInfo: try base64("info")
        )
    }

    fileprivate func matches() throws(JSONError) -> RecordMatches {
        let (store, user) = (try home(), try user())
        var (matches, schema) = ([SubscriptionIndex.Match](), Schema())
        for each in try required("m").elements() {
            let type = try each.required("type").string()
            // Only the names of encrypted fields matter to a notice.
            for name in try each.required("secret").elements() {
                schema.types[type, default: RecordType()].fields[try name.string()] = .init(
                    .scalar(.bytes),
                    isEncrypted: true
                )
            }
            let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 0), by: user, device: DeviceFingerprint(bits: 0))
            matches.append(
                SubscriptionIndex.Match(
                    user: user,
                    scope: try each.scope(),
                    subscription: try each.required("s").subscription(),
                    event: RecordEvents(rawValue: Int(try each.required("on").int64())),
                    record: StoredRecord(
                        name: try each.required("name").string(),
                        type: type,
                        change: 0,
                        created: stamp,
                        modified: stamp,
                        fields: try each.base64("fields") ?? []
                    )
                )
            )
        }
        return RecordMatches(
            address: NoticeAddress(store: store, user: user),
            matches: matches,
            zone: try zone(),
            device: try required("i").string(),
            schema: schema
        )
    }

    fileprivate func device() throws(JSONError) -> PresentDevice {
        PresentDevice(
            deviceID: try required("i").string(),
            address: NoticeAddress(store: try home(), user: try user()),
            connection: NoticeConnectionID(number: UInt64(bitPattern: try required("n").int64()))
        )
    }
}
