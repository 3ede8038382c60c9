#if !canImport(Darwin)
    public import Foundation

    extension PersonNameComponents {
        /// The name as it is usually said: the given name, then the family's.
        public func formatted() -> String { formatted(.name(style: .medium)) }

        /// The name in a style, such as `.name(style: .long)`.
        ///
        /// - Parameter style: How.
        /// - Returns: What the style makes of it.
        public func formatted<Style: Foundation.FormatStyle>(_ style: Style) -> Style.FormatOutput
        where Style.FormatInput == PersonNameComponents {
            style.format(self)
        }

        /// How to write the names of participants, as Apple's Foundation has it; parts in the order of western languages.
        public struct FormatStyle: Foundation.FormatStyle {
            /// How much of a name.
            public enum Style: String, Codable, Hashable, Sendable {
                /// The nickname, or else the given name.
                case short
                /// Given and family name.
                case medium
                /// All of it.
                case long
                /// Initials.
                case abbreviated
            }

            /// How much of a name.
            public var style: Style

            /// A style.
            ///
            /// - Parameter style: How much of a name.
            public init(style: Style = .medium) { self.style = style }

            /// The name in this style; empty if no part of it is known.
            public func format(_ name: PersonNameComponents) -> String {
                let usual = [name.givenName, name.familyName].present
                return switch style {
                case .short: [name.nickname].present.first ?? usual.first ?? ""
                case .medium: usual.joined(separator: " ")
                case .long:
                    [name.namePrefix, name.givenName, name.middleName, name.familyName, name.nameSuffix].present
                        .joined(separator: " ")
                case .abbreviated: usual.compactMap { $0.first.map(String.init) }.joined()
                }
            }
        }
    }

    extension FormatStyle where Self == PersonNameComponents.FormatStyle {
        /// How to write a name.
        ///
        /// - Parameter style: How much of it.
        /// - Returns: A style for `formatted(_:)`.
        public static func name(style: PersonNameComponents.FormatStyle.Style) -> Self { Self(style: style) }
    }

    extension [String?] {
        fileprivate var present: [String] { compactMap { $0 }.filter { !$0.isEmpty } }
    }
#endif
