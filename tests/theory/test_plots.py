"""What the plots claim."""

from agrlearn import theory
from agrlearn.theory import plots


def test_the_picture_shades_nothing_that_an_encoder_reaches(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "_write", lambda figure, path: drawn.append(figure))
    p_xy = theory.four_letters()
    plots.draw_curve(theory.bottleneck_curve(p_xy, points=5), tmp_path / "curve.png", "few points")
    (shading,) = drawn[0].axes[0].collections[0].get_paths()
    fine = theory.bottleneck_curve(p_xy, points=17)[1:-1]
    assert not shading.contains_points([(each.rate, each.relevance - 1e-4) for each in fine]).any()
    assert shading.contains_points([(each.rate, each.relevance + 0.02) for each in fine]).all()
