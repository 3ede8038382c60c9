public import Foundation
import Synchronization

/// How a subscription's notices are to look; known to programs as `CKSubscription.NotificationInfo`.
///
/// The relay keeps all of it and puts what a notice can carry into its `aps` part. A notice that only says "something
/// changed" needs `shouldSendContentAvailable` and nothing else.
public final class CKNotificationInfo: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// All values, guarded by `state`; names as on the wire.
    struct Content: Codable, Hashable, Sendable {
        var alertBody: String?
        var alertLocalizationKey: String?
        var alertLocalizationArgs: [String]?
        var title: String?
        var titleLocalizationKey: String?
        var titleLocalizationArgs: [String]?
        var subtitle: String?
        var subtitleLocalizationKey: String?
        var subtitleLocalizationArgs: [String]?
        var alertActionLocalizationKey: String?
        var alertLaunchImage: String?
        var soundName: String?
        var category: String?
        var collapseIDKey: String?
        var desiredKeys: [String]?
        var shouldBadge: Bool?
        var shouldSendContentAvailable: Bool?
        var shouldSendMutableContent: Bool?
    }

    private let state: Mutex<Content>

    /// Makes one that asks for nothing.
    public override init() {
        state = Mutex(Content())
    }

    /// Makes one with settings; each is described at its property.
    public convenience init(
        alertBody: String? = nil,
        alertLocalizationKey: String? = nil,
        alertLocalizationArgs: [CKRecord.FieldKey] = [],
        title: String? = nil,
        titleLocalizationKey: String? = nil,
        titleLocalizationArgs: [CKRecord.FieldKey] = [],
        subtitle: String? = nil,
        subtitleLocalizationKey: String? = nil,
        subtitleLocalizationArgs: [CKRecord.FieldKey] = [],
        alertActionLocalizationKey: String? = nil,
        alertLaunchImage: String? = nil,
        soundName: String? = nil,
        desiredKeys: [CKRecord.FieldKey] = [],
        shouldBadge: Bool = false,
        shouldSendContentAvailable: Bool = false,
        shouldSendMutableContent: Bool = false,
        category: String? = nil,
        collapseIDKey: String? = nil
    ) {
        func kept(_ names: [String]) -> [String]? { names.isEmpty ? nil : names }
        var content = Content(alertBody: alertBody, title: title, soundName: soundName, category: category)
        content.alertLocalizationKey = alertLocalizationKey
        content.alertLocalizationArgs = kept(alertLocalizationArgs)
        content.titleLocalizationKey = titleLocalizationKey
        content.titleLocalizationArgs = kept(titleLocalizationArgs)
        content.subtitle = subtitle
        content.subtitleLocalizationKey = subtitleLocalizationKey
        content.subtitleLocalizationArgs = kept(subtitleLocalizationArgs)
        content.alertActionLocalizationKey = alertActionLocalizationKey
        content.alertLaunchImage = alertLaunchImage
        content.collapseIDKey = collapseIDKey
        content.shouldSendMutableContent = shouldSendMutableContent ? true : nil
        content.desiredKeys = kept(desiredKeys)
        content.shouldBadge = shouldBadge ? true : nil
        content.shouldSendContentAvailable = shouldSendContentAvailable ? true : nil
        self.init(content)
    }

    init(_ content: Content) {
        state = Mutex(content)
    }

    /// Reads what `encode(with:)` wrote.
    public convenience init?(coder: NSCoder) {
        guard let data = coder.bytes("Content") else { return nil }
        self.init(json: data)
    }

    /// Reads the wire's object; `nil` if it is not one.
    convenience init?(json: [UInt8]) {
        guard let content = try? JSONDecoder().decode(Content.self, from: Data(json)) else { return nil }
        self.init(content)
    }

    /// The wire's object.
    var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return (try? encoder.encode(state.withLock { $0 })).map { [UInt8]($0) } ?? Array("{}".utf8)
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes all settings.
    public func encode(with coder: NSCoder) { coder.encode(Data(json) as NSData, forKey: "Content") }

    /// An independent copy.
    public func copy(with zone: NSZone? = nil) -> Any { CKNotificationInfo(state.withLock { $0 }) }

    /// Equal when all settings are.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKNotificationInfo else { return false }
        return state.withLock { $0 } == other.state.withLock { $0 }
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { state.withLock { $0 }.hashValue }

    private subscript<Value: Sendable>(_ path: any WritableKeyPath<Content, Value> & Sendable) -> Value {
        get { state.withLock { $0[keyPath: path] } }
        set { state.withLock { $0[keyPath: path] = newValue } }
    }

    /// The text of an alert.
    public var alertBody: String? {
        get { self[\.alertBody] }
        set { self[\.alertBody] = newValue }
    }
    /// The key of an alert's text in the program's own tables.
    public var alertLocalizationKey: String? {
        get { self[\.alertLocalizationKey] }
        set { self[\.alertLocalizationKey] = newValue }
    }
    /// The fields whose values go into that text.
    public var alertLocalizationArgs: [CKRecord.FieldKey]? {
        get { self[\.alertLocalizationArgs] }
        set { self[\.alertLocalizationArgs] = newValue }
    }
    /// The title of an alert.
    public var title: String? {
        get { self[\.title] }
        set { self[\.title] = newValue }
    }
    /// The key of the title in the program's own tables.
    public var titleLocalizationKey: String? {
        get { self[\.titleLocalizationKey] }
        set { self[\.titleLocalizationKey] = newValue }
    }
    /// The fields whose values go into that title.
    public var titleLocalizationArgs: [CKRecord.FieldKey]? {
        get { self[\.titleLocalizationArgs] }
        set { self[\.titleLocalizationArgs] = newValue }
    }
    /// The key of the second line in the program's own tables.
    public var subtitleLocalizationKey: String? {
        get { self[\.subtitleLocalizationKey] }
        set { self[\.subtitleLocalizationKey] = newValue }
    }
    /// The fields whose values go into that line.
    public var subtitleLocalizationArgs: [CKRecord.FieldKey]? {
        get { self[\.subtitleLocalizationArgs] }
        set { self[\.subtitleLocalizationArgs] = newValue }
    }
    /// The second line of an alert.
    public var subtitle: String? {
        get { self[\.subtitle] }
        set { self[\.subtitle] = newValue }
    }
    /// The key of the text of an alert's button.
    public var alertActionLocalizationKey: String? {
        get { self[\.alertActionLocalizationKey] }
        set { self[\.alertActionLocalizationKey] = newValue }
    }
    /// The picture to show while the program starts.
    public var alertLaunchImage: String? {
        get { self[\.alertLaunchImage] }
        set { self[\.alertLaunchImage] = newValue }
    }
    /// The sound to play.
    public var soundName: String? {
        get { self[\.soundName] }
        set { self[\.soundName] = newValue }
    }
    /// The kind of alert, which decides about its buttons.
    public var category: String? {
        get { self[\.category] }
        set { self[\.category] = newValue }
    }
    /// The field whose value tells which alerts replace each other.
    public var collapseIDKey: String? {
        get { self[\.collapseIDKey] }
        set { self[\.collapseIDKey] = newValue }
    }
    /// The fields whose values the notice is to carry; query subscriptions only.
    public var desiredKeys: [CKRecord.FieldKey]? {
        get { self[\.desiredKeys] }
        set { self[\.desiredKeys] = newValue }
    }
    /// Whether the program's badge counts up.
    public var shouldBadge: Bool {
        get { self[\.shouldBadge] ?? false }
        set { self[\.shouldBadge] = newValue }
    }
    /// Whether the notice wakes the program without showing anything.
    public var shouldSendContentAvailable: Bool {
        get { self[\.shouldSendContentAvailable] ?? false }
        set { self[\.shouldSendContentAvailable] = newValue }
    }
    /// Whether the program may change the alert before it is shown.
    public var shouldSendMutableContent: Bool {
        get { self[\.shouldSendMutableContent] ?? false }
        set { self[\.shouldSendMutableContent] = newValue }
    }
}
