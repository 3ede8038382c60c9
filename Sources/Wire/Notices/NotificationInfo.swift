package import Records

/// How a subscription's notices are to look, read from its `notificationInfo`.
///
/// Native names and those of CloudKit JS are both accepted. See Wire.md, "Subscriptions".
package struct NotificationInfo: Hashable, Sendable {
    /// Text of an alert: as it is, or as a key into the program's own tables with the fields whose values go into it.
    struct Text: Hashable, Sendable {
        var plain: String?
        var key: String?
        var arguments: [String] = []

        var isEmpty: Bool { plain == nil && key == nil }
    }

    private var body = Text()
    private var title = Text()
    private var subtitle = Text()
    private var actionKey: String?
    private var launchImage: String?
    private var sound: String?
    private var category: String?
    private var countsBadge = false
    private var isMutable = false
    private var wakes = false
    /// Fields whose values the notice is to carry.
    package private(set) var requestedFields: [String] = []

    /// Fields that one subscription may ask for, in all.
    package static let fieldLimit = 16
    /// Bytes of the whole object: a push has room for four thousand, and says whose notice it is too.
    package static let sizeLimit = 3_000

    /// Asks for nothing: silent notices.
    package init() {}

    /// Throws where a member is of the wrong type, or there is too much of it.
    package init(_ json: JSONValue) throws {
        guard json.isObject else { throw json.mismatch("an object") }
        guard json.rawBytes.count <= Self.sizeLimit else {
            throw RelayError.badRequest("A notificationInfo has at most \(Self.sizeLimit) bytes.")
        }
        body.plain = try json["alertBody"]?.string()
        body.key = try json["alertLocalizationKey"]?.string()
        body.arguments = try Self.names(json["alertLocalizationArgs"])
        title.plain = try json["title"]?.string()
        title.key = try json["titleLocalizationKey"]?.string()
        title.arguments = try Self.names(json["titleLocalizationArgs"])
        subtitle.plain = try json["subtitle"]?.string()
        subtitle.key = try json["subtitleLocalizationKey"]?.string()
        subtitle.arguments = try Self.names(json["subtitleLocalizationArgs"])
        actionKey = try json["alertActionLocalizationKey"]?.string()
        launchImage = try json["alertLaunchImage"]?.string()
        sound = try json["soundName"]?.string()
        category = try json["category"]?.string()
        countsBadge = try json["shouldBadge"]?.bool() ?? false
        isMutable = try json["shouldSendMutableContent"]?.bool() ?? false
        wakes = try json["shouldSendContentAvailable"]?.bool() ?? false
        requestedFields = try Self.names(json["additionalFields"] ?? json["desiredKeys"])
        guard fieldNames.count <= Self.fieldLimit else {
            throw RelayError.badRequest("A notificationInfo may name \(Self.fieldLimit) fields.")
        }
    }

    private static func names(_ json: JSONValue?) throws -> [String] {
        try json?.elements().map { try $0.string() } ?? []
    }

    /// Whether a person is to see or hear something.
    package var isVisible: Bool {
        !body.isEmpty || !title.isEmpty || !subtitle.isEmpty || sound != nil || countsBadge
    }

    /// All fields whose values go into a notice.
    package var fieldNames: Set<String> {
        Set(requestedFields + body.arguments + title.arguments + subtitle.arguments)
    }

    /// A notice's `aps` member, with the record's values where the alert asks for them.
    package func aps(_ values: [String: FieldValue]) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { aps in
            if wakes || !isVisible { aps.member("content-available", 1) }
            if isMutable { aps.member("mutable-content", 1) }
            if !body.isEmpty || !title.isEmpty || !subtitle.isEmpty || actionKey != nil || launchImage != nil {
                aps.key("alert")
                aps.object { alert in writeAlert(values, to: &alert) }
            }
            if let sound { aps.member("sound", sound) }
            if countsBadge { aps.member("badge", 1) }
            if let category { aps.member("category", category) }
        }
        return writer.bytes
    }

    private func writeAlert(_ values: [String: FieldValue], to alert: inout JSONWriter) {
        if let text = title.plain { alert.member("title", text) }
        if let key = title.key { alert.member("title-loc-key", key) }
        if title.key != nil { alert.arguments("title-loc-args", title.arguments, values) }
        if let text = subtitle.plain { alert.member("subtitle", text) }
        if let key = subtitle.key { alert.member("subtitle-loc-key", key) }
        if subtitle.key != nil { alert.arguments("subtitle-loc-args", subtitle.arguments, values) }
        if let text = body.plain { alert.member("body", text) }
        if let key = body.key { alert.member("loc-key", key) }
        if body.key != nil { alert.arguments("loc-args", body.arguments, values) }
        if let actionKey { alert.member("action-loc-key", actionKey) }
        if let launchImage { alert.member("launch-image", launchImage) }
    }

    /// A notice's `af` member: the requested fields that the record has, their values alone; `nil` where none were asked
    /// for.
    package func additionalFields(_ values: [String: FieldValue]) -> [UInt8]? {
        guard !requestedFields.isEmpty else { return nil }
        var writer = JSONWriter()
        writer.object { fields in
            for name in requestedFields {
                guard let value = values[name] else { continue }
                fields.key(name)
                FieldCodec.writeBare(value, to: &fields)
            }
        }
        return writer.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func arguments(
        _ name: StaticString,
        _ fields: [String],
        _ values: [String: FieldValue]
    ) {
        key(name)
        array(fields) { $0.string(values[$1]?.alertText ?? "") }
    }
}

extension FieldValue {
    /// The value as it stands in an alert's text.
    fileprivate var alertText: String {
        switch self {
        case .string(let text): text
        case .int64(let number): String(number)
        case .double(let number): number.description
        case .timestamp(let moment): String(moment.milliseconds)
        case .reference(let reference): reference.recordName
        case .bytes, .location, .asset, .list: ""
        }
    }
}
