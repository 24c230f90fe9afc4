//! The operators of advanced filters, by name, and which operands each takes (ED-091, ED-096, ED-099).

/// What an advanced filter does with the value at its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Each is explained by its own name.
pub enum Operator {
    NumberIn,
    NumberNotIn,
    NumberLessThan,
    NumberLessThanOrEquals,
    NumberGreaterThan,
    NumberGreaterThanOrEquals,
    NumberInRange,
    NumberNotInRange,
    BoolEquals,
    StringContains,
    StringNotContains,
    StringBeginsWith,
    StringNotBeginsWith,
    StringEndsWith,
    StringNotEndsWith,
    StringIn,
    StringNotIn,
    IsNullOrUndefined,
    IsNotNull,
}

/// Which operands an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperandKind {
    /// `values`: numbers.
    Numbers,
    /// `value`: one number.
    Number,
    /// `values`: pairs of numbers, each the two ends of a range.
    Ranges,
    /// `value`: true or false.
    Bool,
    /// `values`: texts.
    Texts {
        /// Whether the empty text is one (ED-096).
        may_be_empty: bool,
    },
    /// Neither `value` nor `values`.
    None,
}

impl OperandKind {
    /// The member that holds the operands, if any.
    #[must_use]
    pub const fn member(self) -> Option<&'static str> {
        match self {
            Self::Numbers | Self::Ranges | Self::Texts { .. } => Some("values"),
            Self::Number | Self::Bool => Some("value"),
            Self::None => None,
        }
    }
}

impl Operator {
    /// Every operator, in the order of the specification's table.
    pub const ALL: [Self; 19] = [
        Self::NumberIn,
        Self::NumberNotIn,
        Self::NumberLessThan,
        Self::NumberLessThanOrEquals,
        Self::NumberGreaterThan,
        Self::NumberGreaterThanOrEquals,
        Self::NumberInRange,
        Self::NumberNotInRange,
        Self::BoolEquals,
        Self::StringContains,
        Self::StringNotContains,
        Self::StringBeginsWith,
        Self::StringNotBeginsWith,
        Self::StringEndsWith,
        Self::StringNotEndsWith,
        Self::StringIn,
        Self::StringNotIn,
        Self::IsNullOrUndefined,
        Self::IsNotNull,
    ];

    /// The canonical spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NumberIn => "NumberIn",
            Self::NumberNotIn => "NumberNotIn",
            Self::NumberLessThan => "NumberLessThan",
            Self::NumberLessThanOrEquals => "NumberLessThanOrEquals",
            Self::NumberGreaterThan => "NumberGreaterThan",
            Self::NumberGreaterThanOrEquals => "NumberGreaterThanOrEquals",
            Self::NumberInRange => "NumberInRange",
            Self::NumberNotInRange => "NumberNotInRange",
            Self::BoolEquals => "BoolEquals",
            Self::StringContains => "StringContains",
            Self::StringNotContains => "StringNotContains",
            Self::StringBeginsWith => "StringBeginsWith",
            Self::StringNotBeginsWith => "StringNotBeginsWith",
            Self::StringEndsWith => "StringEndsWith",
            Self::StringNotEndsWith => "StringNotEndsWith",
            Self::StringIn => "StringIn",
            Self::StringNotIn => "StringNotIn",
            Self::IsNullOrUndefined => "IsNullOrUndefined",
            Self::IsNotNull => "IsNotNull",
        }
    }

    /// The operator with this name, whatever its case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operator| operator.as_str().eq_ignore_ascii_case(name))
    }

    /// Which operands it takes.
    #[must_use]
    pub const fn operand_kind(self) -> OperandKind {
        match self {
            Self::NumberIn | Self::NumberNotIn => OperandKind::Numbers,
            Self::NumberLessThan
            | Self::NumberLessThanOrEquals
            | Self::NumberGreaterThan
            | Self::NumberGreaterThanOrEquals => OperandKind::Number,
            Self::NumberInRange | Self::NumberNotInRange => OperandKind::Ranges,
            Self::BoolEquals => OperandKind::Bool,
            Self::StringContains
            | Self::StringNotContains
            | Self::StringBeginsWith
            | Self::StringNotBeginsWith
            | Self::StringEndsWith
            | Self::StringNotEndsWith => OperandKind::Texts {
                may_be_empty: false,
            },
            Self::StringIn | Self::StringNotIn => OperandKind::Texts { may_be_empty: true },
            Self::IsNullOrUndefined | Self::IsNotNull => OperandKind::None,
        }
    }
}
