package import Records

/// The appearance of a subscription's notices, parsed from its `notificationInfo`.
///
/// Accepts both native names and those of CloudKit JS. See Wire.md, "Subscriptions".
package struct NotificationInfo: Hashable, Sendable {
    /// An alert's text, or a key into the app's localization table with the fields whose values are its arguments.
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
    /// The fields whose values the notice contains.
    package private(set) var requestedFields: [String] = []

    /// The maximum number of fields in one subscription.
    package static let fieldLimit = 16
    /// The maximum size of the object in bytes: a push has room for 4,000 and contains other data too.
    package static let sizeLimit = 3_000

    /// Creates the settings of silent notices.
    package init() {}

    /// Throws if a member has the wrong type or a limit is exceeded.
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
            throw RelayError.badRequest("A notificationInfo may name at most \(Self.fieldLimit) fields.")
        }
    }

    private static func names(_ json: JSONValue?) throws -> [String] {
        try json?.elements().map { try $0.string() } ?? []
    }

    /// Whether the notice alerts the user.
    package var isVisible: Bool {
        !body.isEmpty || !title.isEmpty || !subtitle.isEmpty || sound != nil || countsBadge
    }

    /// All fields whose values are part of a notice.
    package var fieldNames: Set<String> {
        Set(requestedFields + body.arguments + title.arguments + subtitle.arguments)
    }

    /// Returns a notice's `aps` member with the record's values as the alert's arguments.
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

    /// Returns a notice's `af` member: the bare values of the requested fields; `nil` if none are requested.
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
    /// The value as text in an alert.
    fileprivate var alertText: String {
        switch self {
        case .string(let text): text
        case .int64(let number): String(number)
        case .double(let number): number.description
        case .timestamp(let timestamp): String(timestamp.milliseconds)
        case .reference(let reference): reference.recordName
        case .bytes, .location, .asset, .list: ""
        }
    }
}
